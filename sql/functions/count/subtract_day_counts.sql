-- Nothing of the day is open, so a task's last event tells how its sub_tasks ended, and a delivery's last attempt how
-- the delivery ended. Few have a second one, so what is looked up for "no later one" is small.
-- Locks: none. It only inserts.
CREATE OR REPLACE FUNCTION rvq.subtract_day_counts(p_day integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET work_mem = '128MB' SET jit = off
AS $$
BEGIN
    EXECUTE format($sql$
        INSERT INTO rvq.counter_deltas (queue, succeeded, failed, cancelled, tasks_succeeded, tasks_failed,
                                        tasks_cancelled, deliveries_delivered, deliveries_dead)
        SELECT x.queue, -sum(x.succeeded), -sum(x.failed), -sum(x.cancelled),
               -count(*) FILTER (WHERE x.ended = 'succeeded'), -count(*) FILTER (WHERE x.ended = 'failed'),
               -count(*) FILTER (WHERE x.ended = 'cancelled'), -count(*) FILTER (WHERE x.delivery = 'delivered'),
               -count(*) FILTER (WHERE x.delivery = 'dead')
          FROM (SELECT e.queue, e.succeeded, e.failed, e.cancelled, e.status AS ended,
                       NULL::rvq.delivery_status AS delivery
                  FROM rvq.events_%1$s AS e
                 WHERE NOT EXISTS (SELECT FROM rvq.events_%1$s AS l
                                    WHERE l.id & -16384 = e.id & -16384 AND l.id > e.id AND l.id & 16383 > 0)
                UNION ALL
                SELECT a.queue, 0, 0, 0, NULL, a.status
                  FROM rvq.delivery_attempts_%1$s AS a
                 WHERE a.status <> 'pending'
                   AND NOT EXISTS (SELECT FROM rvq.delivery_attempts_%1$s AS l
                                    WHERE l.id = a.id AND l.attempt > a.attempt AND l.attempt > 1)) AS x
         GROUP BY x.queue
        $sql$, p_day);
END $$;
COMMENT ON FUNCTION rvq.subtract_day_counts(integer) IS
    'Subtract the ended tasks, sub_tasks and deliveries of that day from the counters.';
