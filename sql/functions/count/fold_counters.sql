-- One folds at a time; a second one has nothing to do. After hours without a dispatcher there are millions of deltas:
-- p_limit of them go into one transaction (NULL: all).
-- Locks: door, the folder's lock (not waited for), counters by queue.
CREATE OR REPLACE FUNCTION rvq.fold_counters(p_limit integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_folded integer;
BEGIN
    PERFORM rvq.hold_door();
    IF NOT pg_try_advisory_xact_lock(1, 2) THEN
        RETURN 0;
    END IF;
    WITH deleted AS (
        DELETE FROM rvq.counter_deltas AS d
         WHERE d.ctid = ANY (ARRAY(SELECT p.ctid FROM rvq.counter_deltas AS p LIMIT p_limit)) RETURNING d.*),
    folded AS (
        INSERT INTO rvq.counters AS c
        SELECT d.queue, coalesce(sum(d.scheduled), 0), coalesce(sum(d.queued), 0), coalesce(sum(d.claimed), 0),
               coalesce(sum(d.succeeded), 0), coalesce(sum(d.failed), 0), coalesce(sum(d.cancelled), 0),
               coalesce(sum(d.tasks_open), 0), coalesce(sum(d.tasks_started), 0), coalesce(sum(d.tasks_succeeded), 0),
               coalesce(sum(d.tasks_failed), 0), coalesce(sum(d.tasks_cancelled), 0),
               coalesce(sum(d.deliveries_pending), 0), coalesce(sum(d.deliveries_delivered), 0),
               coalesce(sum(d.deliveries_dead), 0)
          FROM deleted AS d GROUP BY d.queue ORDER BY d.queue
        ON CONFLICT (queue) DO UPDATE SET
            scheduled = c.scheduled + excluded.scheduled, queued = c.queued + excluded.queued,
            claimed = c.claimed + excluded.claimed, succeeded = c.succeeded + excluded.succeeded,
            failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled,
            tasks_open = c.tasks_open + excluded.tasks_open, tasks_started = c.tasks_started + excluded.tasks_started,
            tasks_succeeded = c.tasks_succeeded + excluded.tasks_succeeded,
            tasks_failed = c.tasks_failed + excluded.tasks_failed,
            tasks_cancelled = c.tasks_cancelled + excluded.tasks_cancelled,
            deliveries_pending = c.deliveries_pending + excluded.deliveries_pending,
            deliveries_delivered = c.deliveries_delivered + excluded.deliveries_delivered,
            deliveries_dead = c.deliveries_dead + excluded.deliveries_dead)
    SELECT count(*) INTO v_folded FROM deleted;
    RETURN v_folded;
END $$;
COMMENT ON FUNCTION rvq.fold_counters(integer) IS
    'Move pending deltas into the counters, a batch at a time; return how many.';
