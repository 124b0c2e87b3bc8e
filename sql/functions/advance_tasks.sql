-- Fan-in: takes ended sub_tasks off their tasks. The row lock makes the last one the only one that sees none left.
-- Locks: tasks by id. The sub_tasks of a task that its policy ends here are locked already (rvq.enter_gates).
-- Callers: rvq.complete_sub_tasks, rvq.expire_leases
CREATE OR REPLACE FUNCTION rvq.advance_tasks(p_task_ids bigint[], p_statuses rvq.outcome_status[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_task record;
BEGIN
    SELECT array_agg(c.id) AS ids, array_agg(c.verdict) AS verdicts, array_agg(c.unfinished) AS unfinished,
           array_agg(c.succeeded) AS succeeded, array_agg(c.failed) AS failed, array_agg(c.untouched) AS untouched,
           bool_or(c.unfinished > 0 AND c.verdict IS NOT NULL) AS early
      INTO v_task
      FROM (SELECT t.id, t.unfinished = t.total AS untouched, t.unfinished - c.ended AS unfinished,
                   t.succeeded + c.succeeded AS succeeded, t.failed + c.ended - c.succeeded AS failed,
                   rvq.verdict(t.policy, t.required, t.unfinished - c.ended, t.succeeded + c.succeeded, t.failed + c.ended - c.succeeded) AS verdict
              FROM (SELECT c.id, count(*)::integer AS ended, count(*) FILTER (WHERE c.status = 'succeeded')::integer AS succeeded
                      FROM unnest(p_task_ids, p_statuses) AS c(id, status) GROUP BY c.id) AS c
              JOIN rvq.open_tasks AS t ON t.id = c.id
             ORDER BY t.id FOR UPDATE OF t) AS c;
    IF array_position(v_task.verdicts, NULL) IS NOT NULL THEN
        WITH moved AS (
            UPDATE rvq.open_tasks AS t SET unfinished = c.unfinished, succeeded = c.succeeded, failed = c.failed
              FROM unnest(v_task.ids, v_task.verdicts, v_task.unfinished, v_task.succeeded, v_task.failed, v_task.untouched)
                   AS c(id, verdict, unfinished, succeeded, failed, untouched)
             WHERE t.id = c.id AND c.verdict IS NULL
            RETURNING t.queue, c.untouched)
        INSERT INTO rvq.counter_deltas (queue, tasks_started)
        SELECT m.queue, count(*) FROM moved AS m WHERE m.untouched GROUP BY m.queue;
    END IF;
    IF cardinality(array_remove(v_task.verdicts, NULL)) > 0 THEN
        PERFORM rvq.end_tasks(v_task.ids, v_task.verdicts, v_task.succeeded, v_task.failed, v_task.early, p_now);
    END IF;
END $$;
COMMENT ON FUNCTION rvq.advance_tasks(bigint[], rvq.outcome_status[], timestamptz) IS
    'Count ended sub_tasks into their tasks and end the tasks that are decided.';
