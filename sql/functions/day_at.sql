CREATE OR REPLACE FUNCTION rvq.day_at(p_time timestamptz) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_time AT TIME ZONE 'UTC')::date - '2024-01-01'::date $$;
COMMENT ON FUNCTION rvq.day_at(timestamptz) IS 'A moment as days since 2024-01-01 UTC, the day number inside ids.';
