CREATE OR REPLACE FUNCTION rvq.is_gated(p_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_id & 16384 <> 0 $$;
COMMENT ON FUNCTION rvq.is_gated(bigint) IS
    'Tell whether the task of this id has a gate, because its policy may cancel sub_tasks (see rvq.hold_gates).';
