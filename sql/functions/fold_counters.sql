-- One folder at a time; a second one has nothing to do.
-- Locks: door, the folder's lock (not waited for), counters by queue.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.fold_counters() RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_folded integer;
BEGIN
    PERFORM rvq.enter();
    IF NOT pg_try_advisory_xact_lock(1, 2) THEN
        RETURN 0;
    END IF;
    WITH gone AS (DELETE FROM rvq.counter_deltas RETURNING *),
    folded AS (
        INSERT INTO rvq.counters AS c
        SELECT g.queue, coalesce(sum(g.scheduled), 0), coalesce(sum(g.queued), 0), coalesce(sum(g.claimed), 0),
               coalesce(sum(g.succeeded), 0), coalesce(sum(g.failed), 0), coalesce(sum(g.cancelled), 0),
               coalesce(sum(g.tasks_open), 0), coalesce(sum(g.tasks_started), 0), coalesce(sum(g.tasks_succeeded), 0),
               coalesce(sum(g.tasks_failed), 0), coalesce(sum(g.tasks_cancelled), 0), coalesce(sum(g.deliveries_pending), 0),
               coalesce(sum(g.deliveries_delivered), 0), coalesce(sum(g.deliveries_dead), 0)
          FROM gone AS g GROUP BY g.queue ORDER BY g.queue
        ON CONFLICT (queue) DO UPDATE SET
            scheduled = c.scheduled + excluded.scheduled, queued = c.queued + excluded.queued, claimed = c.claimed + excluded.claimed,
            succeeded = c.succeeded + excluded.succeeded, failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled,
            tasks_open = c.tasks_open + excluded.tasks_open, tasks_started = c.tasks_started + excluded.tasks_started,
            tasks_succeeded = c.tasks_succeeded + excluded.tasks_succeeded, tasks_failed = c.tasks_failed + excluded.tasks_failed,
            tasks_cancelled = c.tasks_cancelled + excluded.tasks_cancelled,
            deliveries_pending = c.deliveries_pending + excluded.deliveries_pending,
            deliveries_delivered = c.deliveries_delivered + excluded.deliveries_delivered,
            deliveries_dead = c.deliveries_dead + excluded.deliveries_dead)
    SELECT count(*) INTO v_folded FROM gone;
    RETURN v_folded;
END $$;
COMMENT ON FUNCTION rvq.fold_counters() IS 'Move pending deltas into the counters; returns how many.';
