-- Fan-in: takes ended sub_tasks off their tasks. The row lock makes the last one the only one that sees none left.
-- Locks: tasks by id. The sub_tasks of a task that its policy ends here are locked already (rvq.enter_gates).
-- Callers: rvq.complete_sub_tasks, rvq.expire_leases
CREATE OR REPLACE FUNCTION rvq.advance_tasks(p_task_ids bigint[], p_statuses rvq.outcome_status[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_change record;
BEGIN
    WITH changed AS (
        SELECT t.id, c.ended, t.unfinished - c.ended AS unfinished, t.succeeded + c.succeeded AS succeeded, t.failed + c.failed AS failed,
               rvq.verdict(t.policy, t.required, t.unfinished - c.ended, t.succeeded + c.succeeded, t.failed + c.failed) AS verdict
          FROM (SELECT c.id, count(*)::integer AS ended, count(*) FILTER (WHERE c.status = 'succeeded')::integer AS succeeded,
                       count(*) FILTER (WHERE c.status = 'failed')::integer AS failed
                  FROM unnest(p_task_ids, p_statuses) AS c(id, status) GROUP BY c.id) AS c
          JOIN rvq.open_tasks AS t ON t.id = c.id
         ORDER BY t.id FOR UPDATE OF t)
    SELECT array_agg(c.id) FILTER (WHERE c.verdict IS NULL) AS open_ids,
           array_agg(c.ended) FILTER (WHERE c.verdict IS NULL) AS open_ended,
           array_agg(c.succeeded) FILTER (WHERE c.verdict IS NULL) AS open_succeeded,
           array_agg(c.failed) FILTER (WHERE c.verdict IS NULL) AS open_failed,
           array_agg(c.id) FILTER (WHERE c.verdict IS NOT NULL) AS ended_ids,
           array_agg(c.verdict) FILTER (WHERE c.verdict IS NOT NULL) AS verdicts,
           array_agg(c.succeeded) FILTER (WHERE c.verdict IS NOT NULL) AS ended_succeeded,
           array_agg(c.failed) FILTER (WHERE c.verdict IS NOT NULL) AS ended_failed,
           bool_or(c.unfinished > 0) FILTER (WHERE c.verdict IS NOT NULL) AS early
      INTO v_change FROM changed AS c;
    IF v_change.open_ids IS NOT NULL THEN
        WITH moved AS (
            UPDATE rvq.open_tasks AS t SET unfinished = t.unfinished - c.ended, succeeded = c.succeeded, failed = c.failed
              FROM unnest(v_change.open_ids, v_change.open_ended, v_change.open_succeeded, v_change.open_failed)
                   AS c(id, ended, succeeded, failed)
             WHERE t.id = c.id
            RETURNING t.queue, t.unfinished + c.ended = t.total AS first)
        INSERT INTO rvq.counter_deltas (queue, tasks_started)
        SELECT m.queue, count(*) FROM moved AS m WHERE m.first GROUP BY m.queue;
    END IF;
    IF v_change.ended_ids IS NOT NULL THEN
        PERFORM rvq.end_tasks(v_change.ended_ids, v_change.verdicts, v_change.ended_succeeded, v_change.ended_failed,
                              v_change.early, p_now);
    END IF;
END $$;
COMMENT ON FUNCTION rvq.advance_tasks(bigint[], rvq.outcome_status[], timestamptz) IS
    'Count ended sub_tasks into their tasks and end the tasks that are decided.';
