-- STABLE as extract() is: were it declared stricter than what it calls, it could not be inlined.
CREATE OR REPLACE FUNCTION rvq.day_at(p_time timestamptz) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT floor(extract(epoch FROM p_time) / 86400)::integer - 19723 $$;
COMMENT ON FUNCTION rvq.day_at(timestamptz) IS 'A moment as days since 2024-01-01 UTC, the day number inside ids.';
