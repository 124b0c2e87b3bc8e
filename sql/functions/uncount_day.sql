-- A task's last event tells how its sub_tasks ended, a delivery's last attempt how it ended: nothing of the day is open.
-- Locks: none.
-- Callers: rvq.drop_day_of_tasks
CREATE OR REPLACE FUNCTION rvq.uncount_day(p_day integer) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    EXECUTE format($sql$
        WITH ended AS (
            SELECT DISTINCT ON (e.id & -16384) e.id & -16384 AS id, e.succeeded, e.failed, e.cancelled, e.status
              FROM rvq.events_%1$s AS e ORDER BY e.id & -16384, e.id DESC)
        INSERT INTO rvq.counter_deltas (queue, succeeded, failed, cancelled, tasks_succeeded, tasks_failed, tasks_cancelled)
        SELECT t.queue, -sum(e.succeeded), -sum(e.failed), -sum(e.cancelled), -count(*) FILTER (WHERE e.status = 'succeeded'),
               -count(*) FILTER (WHERE e.status = 'failed'), -count(*) FILTER (WHERE e.status = 'cancelled')
          FROM ended AS e JOIN rvq.tasks_%1$s AS t ON t.id = e.id GROUP BY t.queue
        $sql$, p_day);
    EXECUTE format($sql$
        WITH ended AS (
            SELECT DISTINCT ON (a.id) a.id & -16384 AS task_id, a.status
              FROM rvq.delivery_attempts_%1$s AS a ORDER BY a.id, a.attempt DESC)
        INSERT INTO rvq.counter_deltas (queue, deliveries_delivered, deliveries_dead)
        SELECT t.queue, -count(*) FILTER (WHERE d.status = 'delivered'), -count(*) FILTER (WHERE d.status = 'dead')
          FROM ended AS d JOIN rvq.tasks_%1$s AS t ON t.id = d.task_id GROUP BY t.queue
        $sql$, p_day);
END $$;
COMMENT ON FUNCTION rvq.uncount_day(integer) IS 'Take the ended tasks, sub_tasks and deliveries of that day out of the counters.';
