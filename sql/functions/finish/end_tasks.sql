-- Ends tasks from outside (cancel, deadline): it waits for whoever is completing their sub_tasks, then looks again. A
-- task that ended and was reopened during the wait is left alone: the sub_tasks of its new run are not locked.
-- Locks: gates by number, sub_tasks by (queued_at, id), tasks by id.
CREATE OR REPLACE FUNCTION rvq.end_tasks(p_task_ids bigint[], p_end_as rvq.task_status) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_runs bigint[];
    v_open bigint[];
BEGIN
    PERFORM rvq.hold_gates(p_task_ids);
    v_runs := ARRAY(SELECT t.id + t.run FROM rvq.open_tasks AS t WHERE t.id = ANY (p_task_ids));
    PERFORM rvq.lock_sub_tasks(ARRAY(
        SELECT s.id FROM rvq.open_tasks AS t JOIN rvq.open_sub_tasks AS s ON s.id > t.id AND s.id < t.id + 16384
         WHERE t.id = ANY (p_task_ids)));
    v_open := ARRAY(SELECT t.id FROM rvq.open_tasks AS t WHERE t.id = ANY (p_task_ids) AND t.id + t.run = ANY (v_runs)
                     ORDER BY t.id FOR UPDATE);
    IF cardinality(v_open) > 0 THEN
        PERFORM rvq.advance_tasks(v_open, '{}', '{}', p_end_as, rvq.clock());
    END IF;
    RETURN v_open;
END $$;
COMMENT ON FUNCTION rvq.end_tasks(bigint[], rvq.task_status) IS
    'End these tasks now, with whatever is unfinished; return those that were open.';
