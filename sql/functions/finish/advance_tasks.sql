-- Fan-in: takes ended sub_tasks off their tasks. The row lock makes the last one the only one that sees none left. A
-- task that its policy decides ends here: what is unfinished is cancelled, the event and its delivery are written.
-- p_previous, p_statuses: what each sub_task was, and how it ended.
-- p_end_as: NULL, or how the tasks end whatever their policies say; then no sub_task need be named. A task ends when
-- its row is locked at last, no earlier than its sub_tasks (p_now), and never before it was created.
-- Locks: tasks by id. The sub_tasks of a task that ends with unfinished ones are locked already (rvq.hold_gates).
CREATE OR REPLACE FUNCTION rvq.advance_tasks(
    p_task_ids bigint[], p_previous rvq.sub_task_status[], p_statuses rvq.outcome_status[], p_end_as rvq.task_status,
    p_now timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_ended bigint[];
    v_unfinished bigint[];
    v_ended_at timestamptz;
BEGIN
    WITH step AS (
        SELECT e.task_id, count(e.status)::integer AS ended,
               count(*) FILTER (WHERE e.status = 'succeeded')::integer AS succeeded,
               count(*) FILTER (WHERE e.previous = 'scheduled')::integer AS scheduled,
               count(*) FILTER (WHERE e.previous = 'queued')::integer AS queued
          FROM unnest(p_task_ids, p_previous, p_statuses) AS e(task_id, previous, status)
         GROUP BY e.task_id ORDER BY e.task_id),
    task AS (
        UPDATE rvq.open_tasks AS t
           SET unfinished = t.unfinished - s.ended, succeeded = t.succeeded + s.succeeded,
               failed = t.failed + s.ended - s.succeeded
          FROM step AS s WHERE t.id = s.task_id
        RETURNING t.id, t.id + rvq.event_ordinal(t.run, coalesce(t.reopened_at, t.created_at)) AS event_id,
                  t.created_at, t.total, t.unfinished, t.succeeded, t.failed, t.queue, t.webhook_url, t.webhook_host,
                  t.metadata, s.ended AS ended_now, s.succeeded AS succeeded_now, s.scheduled, s.queued,
                  t.unfinished + s.ended < t.total AS started, greatest(p_now, t.created_at, rvq.clock()) AS ended_at,
                  coalesce(p_end_as,
                           rvq.decide_task(t.policy, t.required, t.unfinished, t.succeeded, t.failed)) AS end_as),
    event AS (
        INSERT INTO rvq.events (id, xid, occurred_at, succeeded, failed, cancelled, status, queue, body)
        SELECT t.event_id, rvq.feed_xid(), t.ended_at, t.succeeded, t.failed, t.total - t.succeeded - t.failed,
               t.end_as, t.queue,
               rvq.event_body(t.id, t.end_as, t.total, t.succeeded, t.failed, t.metadata, t.created_at, t.ended_at)
          FROM task AS t WHERE t.end_as IS NOT NULL),
    due AS (
        INSERT INTO rvq.due_deliveries (id, due_at, queue, host, url)
        SELECT t.event_id, p_now, t.queue, t.webhook_host, t.webhook_url FROM task AS t
         WHERE t.end_as IS NOT NULL AND t.webhook_url IS NOT NULL),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued, claimed, succeeded, failed, tasks_open, tasks_started,
                                        tasks_succeeded, tasks_failed, tasks_cancelled, deliveries_pending)
        SELECT t.queue, nullif(-sum(t.scheduled), 0), nullif(-sum(t.queued), 0),
               nullif(sum(t.scheduled + t.queued - t.ended_now), 0), nullif(sum(t.succeeded_now), 0),
               nullif(sum(t.ended_now - t.succeeded_now), 0), CASE WHEN t.end_as IS NOT NULL THEN -count(*) END,
               CASE WHEN t.end_as IS NULL AND NOT t.started THEN count(*)
                    WHEN t.end_as IS NOT NULL AND t.started THEN -count(*) END,
               CASE WHEN t.end_as = 'succeeded' THEN count(*) END, CASE WHEN t.end_as = 'failed' THEN count(*) END,
               CASE WHEN t.end_as = 'cancelled' THEN count(*) END,
               CASE WHEN t.end_as IS NOT NULL THEN nullif(count(t.webhook_url), 0) END
          FROM task AS t GROUP BY t.queue, t.end_as, t.started)
    SELECT array_agg(t.id), array_agg(t.id) FILTER (WHERE t.unfinished > 0), max(t.ended_at)
      INTO v_ended, v_unfinished, v_ended_at FROM task AS t WHERE t.end_as IS NOT NULL;
    IF v_unfinished IS NOT NULL THEN
        PERFORM rvq.cancel_open_sub_tasks(v_unfinished, v_ended_at);
    END IF;
    IF v_ended IS NOT NULL THEN
        DELETE FROM rvq.open_tasks AS t WHERE t.id = ANY (v_ended);
    END IF;
END $$;
COMMENT ON FUNCTION
    rvq.advance_tasks(bigint[], rvq.sub_task_status[], rvq.outcome_status[], rvq.task_status, timestamptz) IS
    'Count ended sub_tasks into their tasks, and end the tasks that are decided, with events and deliveries.';
