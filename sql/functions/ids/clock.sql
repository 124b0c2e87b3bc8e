-- This is the only clock. Tests move it by the setting rvq.clock_offset (seconds). It reads clock_timestamp() and not
-- now(): a function may have waited for a lock since its transaction began.
CREATE OR REPLACE FUNCTION rvq.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE
AS $$
    SELECT clock_timestamp()
           + make_interval(secs => coalesce(nullif(current_setting('rvq.clock_offset', true), ''), '0')::float8)
$$;
COMMENT ON FUNCTION rvq.clock() IS
    'Return the time of every decision RVQ makes: the server''s clock plus the setting rvq.clock_offset.';
