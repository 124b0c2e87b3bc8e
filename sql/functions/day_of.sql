CREATE OR REPLACE FUNCTION rvq.day_of(p_id bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_id >> 48)::integer $$;
COMMENT ON FUNCTION rvq.day_of(bigint) IS 'The day an id was made, in days since 2024-01-01 UTC: names the partition its facts are in.';
