-- Ends tasks: what is unfinished is cancelled, the event and its delivery are written. All in the caller's transaction.
-- p_succeeded, p_failed: how many sub_tasks of each ended so by now; empty where that is what the tasks say.
-- p_early: some may have open sub_tasks left.
-- Locks: none of its own: the tasks and their open sub_tasks are locked.
-- Callers: rvq.advance_tasks, rvq.end_early, rvq.sweep_stranded_tasks
CREATE OR REPLACE FUNCTION rvq.end_tasks(
    p_task_ids bigint[], p_verdicts rvq.task_status[], p_succeeded integer[], p_failed integer[], p_early boolean, p_now timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF p_early THEN
        PERFORM rvq.cancel_open_sub_tasks(ARRAY(
            SELECT e.id FROM unnest(p_task_ids, p_verdicts) AS e(id, verdict) WHERE e.verdict IS NOT NULL), p_now);
    END IF;
    WITH ended AS (
        DELETE FROM rvq.open_tasks AS t
         USING unnest(p_task_ids, p_verdicts, p_succeeded, p_failed) AS e(id, verdict, succeeded, failed)
         WHERE t.id = e.id AND e.verdict IS NOT NULL
        RETURNING t.id, t.id + t.run AS event_id, t.created_at, t.total, t.queue, t.webhook_url, t.webhook_host, t.metadata,
                  e.verdict, coalesce(e.succeeded, t.succeeded) AS succeeded, coalesce(e.failed, t.failed) AS failed,
                  t.unfinished < t.total AS started),
    event AS (
        INSERT INTO rvq.events (id, xid, occurred_at, succeeded, failed, cancelled, status, queue, body)
        SELECT e.event_id, pg_current_xact_id(), p_now, e.succeeded, e.failed, e.total - e.succeeded - e.failed, e.verdict, e.queue,
               rvq.event_body(e.id, e.verdict, e.total, e.succeeded, e.failed, e.metadata, e.created_at, p_now)
          FROM ended AS e),
    due AS (
        INSERT INTO rvq.due_deliveries (id, due_at, queue, host, url)
        SELECT e.event_id, p_now, e.queue, e.webhook_host, e.webhook_url FROM ended AS e WHERE e.webhook_url IS NOT NULL)
    INSERT INTO rvq.counter_deltas (queue, tasks_open, tasks_started, tasks_succeeded, tasks_failed, tasks_cancelled, deliveries_pending)
    SELECT e.queue, -count(*), CASE WHEN e.started THEN -count(*) END, CASE WHEN e.verdict = 'succeeded' THEN count(*) END,
           CASE WHEN e.verdict = 'failed' THEN count(*) END, CASE WHEN e.verdict = 'cancelled' THEN count(*) END, nullif(count(e.webhook_url), 0)
      FROM ended AS e GROUP BY e.queue, e.started, e.verdict;
END $$;
COMMENT ON FUNCTION rvq.end_tasks(bigint[], rvq.task_status[], integer[], integer[], boolean, timestamptz) IS
    'End tasks: cancel what is unfinished, write the events and the deliveries that are due.';
