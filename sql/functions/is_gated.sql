CREATE OR REPLACE FUNCTION rvq.is_gated(p_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_id & 16384 <> 0 $$;
COMMENT ON FUNCTION rvq.is_gated(bigint) IS 'Whether the task of this id has a gate, for its policy may cancel sub_tasks (see rvq.enter_gates).';
