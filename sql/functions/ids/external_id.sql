CREATE OR REPLACE FUNCTION rvq.external_id(p_prefix text, p_id bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_prefix || '_' || lpad(to_hex(p_id), 16, '0') $$;
COMMENT ON FUNCTION rvq.external_id(text, bigint) IS
    'Return an id as partners and workers see it, such as task_0123456789abcdef.';
