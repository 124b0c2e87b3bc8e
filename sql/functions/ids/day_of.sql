CREATE OR REPLACE FUNCTION rvq.day_of(p_id bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_id >> 48)::integer $$;
COMMENT ON FUNCTION rvq.day_of(bigint) IS
    'Return the day an id was made, in days since 2024-01-01 UTC: it names the partition that holds the id''s facts.';
