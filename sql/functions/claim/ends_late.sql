-- A minute is not worth the writing. It is inlined where it is called.
CREATE OR REPLACE FUNCTION rvq.ends_late(p_end timestamptz, p_seconds integer, p_now timestamptz) RETURNS boolean
LANGUAGE sql STABLE
AS $$ SELECT p_end > p_now + make_interval(secs => p_seconds) + interval '1 minute' $$;
COMMENT ON FUNCTION rvq.ends_late(timestamptz, integer, timestamptz) IS
    'Tell whether what ends then is more than a minute later than if it began now and took so long.';
