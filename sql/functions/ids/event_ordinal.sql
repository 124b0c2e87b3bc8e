-- It is the run, but for a task that was open when the server began to run: if that came of a restore, the task may
-- have ended before, and the event of that end, under that id, is out.
-- p_opened_at: when the task was created, or reopened last.
-- Only after rvq.hold_door, which sees to it that the session knows the run.
CREATE OR REPLACE FUNCTION rvq.event_ordinal(p_run integer, p_opened_at timestamptz) RETURNS integer
LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN extract(epoch FROM p_opened_at) >= current_setting('rvq.run_began')::numeric THEN p_run
                ELSE rvq.fresh_ordinal(p_run) END
$$;
COMMENT ON FUNCTION rvq.event_ordinal(integer, timestamptz) IS
    'Return the ordinal of the event that ends a task''s run: no event had it before, not even a lost one.';
