-- It is the run, but for a task that was open when the server began to run: if that came of a restore, the task may
-- have ended before, and the event of that end, under that id, is out. Then it goes by the task's age, and it counts
-- on: 5 for the first second, 300 after an hour, 8 050 after a month.
-- Only after rvq.hold_door, which sees to it that the session knows the run.
CREATE OR REPLACE FUNCTION rvq.event_ordinal(p_run integer, p_created_at timestamptz, p_now timestamptz)
RETURNS integer
LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN extract(epoch FROM p_created_at) >= current_setting('rvq.run_began')::numeric THEN p_run
                ELSE greatest(p_run, least(16000, 1 + 5 * sqrt(greatest(0, extract(epoch FROM p_now - p_created_at)))
                                          )::integer) END
$$;
COMMENT ON FUNCTION rvq.event_ordinal(integer, timestamptz, timestamptz) IS
    'Return the ordinal of the event that ends a task''s run: no event had it before, not even a lost one.';
