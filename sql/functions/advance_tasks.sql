-- Fan-in: takes ended sub_tasks off their tasks. The row lock makes the last one the only one that sees none left.
-- Locks: tasks by id. The sub_tasks of a task that its policy ends here are locked already (rvq.enter_gates).
-- Callers: rvq.complete_sub_tasks, rvq.expire_leases
CREATE OR REPLACE FUNCTION rvq.advance_tasks(p_task_ids bigint[], p_statuses rvq.outcome_status[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_open bigint[];
    v_ended bigint[];
    v_verdicts rvq.task_status[];
    v_early boolean;
BEGIN
    WITH change AS (
        SELECT c.id, count(*) AS ended, count(*) FILTER (WHERE c.status = 'succeeded') AS succeeded,
               count(*) FILTER (WHERE c.status = 'failed') AS failed
          FROM unnest(p_task_ids, p_statuses) AS c(id, status) GROUP BY c.id),
    locked AS MATERIALIZED (
        SELECT t.id, t.policy, t.required, t.unfinished, t.succeeded, t.failed
          FROM rvq.open_tasks AS t WHERE t.id = ANY (p_task_ids) ORDER BY t.id FOR UPDATE),
    seen AS (
        SELECT l.id, l.unfinished > c.ended AS early,
               rvq.verdict(l.policy, l.required, l.unfinished - c.ended::integer, l.succeeded + c.succeeded::integer,
                           l.failed + c.failed::integer) AS verdict
          FROM locked AS l JOIN change AS c ON c.id = l.id)
    SELECT array_agg(s.id) FILTER (WHERE s.verdict IS NULL),
           array_agg(s.id ORDER BY s.id) FILTER (WHERE s.verdict IS NOT NULL),
           array_agg(s.verdict ORDER BY s.id) FILTER (WHERE s.verdict IS NOT NULL),
           bool_or(s.early) FILTER (WHERE s.verdict IS NOT NULL)
      INTO v_open, v_ended, v_verdicts, v_early FROM seen AS s;
    IF v_open IS NOT NULL THEN
        WITH moved AS (
            UPDATE rvq.open_tasks AS t
               SET unfinished = t.unfinished - c.ended, succeeded = t.succeeded + c.succeeded, failed = t.failed + c.failed
              FROM (SELECT c.id, count(*) AS ended, count(*) FILTER (WHERE c.status = 'succeeded') AS succeeded,
                           count(*) FILTER (WHERE c.status = 'failed') AS failed
                      FROM unnest(p_task_ids, p_statuses) AS c(id, status) WHERE c.id = ANY (v_open) GROUP BY c.id) AS c
             WHERE t.id = c.id
            RETURNING t.queue, t.unfinished + c.ended = t.total AS first)
        INSERT INTO rvq.counter_deltas (queue, tasks_started)
        SELECT m.queue, count(*) FROM moved AS m WHERE m.first GROUP BY m.queue;
    END IF;
    IF v_ended IS NOT NULL THEN
        PERFORM rvq.end_tasks(v_ended, v_verdicts, p_task_ids, p_statuses, v_early, p_now);
    END IF;
END $$;
COMMENT ON FUNCTION rvq.advance_tasks(bigint[], rvq.outcome_status[], timestamptz) IS
    'Count ended sub_tasks into their tasks and end the tasks that are decided.';
