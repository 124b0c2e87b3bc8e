CREATE OR REPLACE FUNCTION rvq.day_at(p_time timestamptz) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_time AT TIME ZONE 'UTC')::date - '2024-01-01'::date $$;
COMMENT ON FUNCTION rvq.day_at(timestamptz) IS 'Return the day of a moment as ids carry it: days since 2024-01-01 UTC.';
