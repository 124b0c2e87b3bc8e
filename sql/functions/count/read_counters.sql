-- Folded counters plus pending deltas, in one snapshot: exact at any moment. The deltas are summed up as the integers
-- that they are before anything else, which takes four seconds for twelve million of them (as bigint it would be
-- numeric, and half a minute). It is inlined where it is called.
CREATE OR REPLACE FUNCTION rvq.read_counters()
RETURNS TABLE (queue text, scheduled bigint, queued bigint, claimed bigint, succeeded bigint, failed bigint,
               cancelled bigint, tasks_open bigint, tasks_started bigint, tasks_succeeded bigint, tasks_failed bigint,
               tasks_cancelled bigint, deliveries_pending bigint, deliveries_delivered bigint, deliveries_dead bigint)
LANGUAGE sql STABLE
AS $$
    SELECT c.queue, sum(c.scheduled)::bigint, sum(c.queued)::bigint, sum(c.claimed)::bigint, sum(c.succeeded)::bigint,
           sum(c.failed)::bigint, sum(c.cancelled)::bigint, sum(c.tasks_open)::bigint, sum(c.tasks_started)::bigint,
           sum(c.tasks_succeeded)::bigint, sum(c.tasks_failed)::bigint, sum(c.tasks_cancelled)::bigint,
           sum(c.deliveries_pending)::bigint, sum(c.deliveries_delivered)::bigint, sum(c.deliveries_dead)::bigint
      FROM (SELECT f.* FROM rvq.counters AS f
            UNION ALL
            SELECT d.queue, coalesce(sum(d.scheduled), 0), coalesce(sum(d.queued), 0), coalesce(sum(d.claimed), 0),
                   coalesce(sum(d.succeeded), 0), coalesce(sum(d.failed), 0), coalesce(sum(d.cancelled), 0),
                   coalesce(sum(d.tasks_open), 0), coalesce(sum(d.tasks_started), 0),
                   coalesce(sum(d.tasks_succeeded), 0), coalesce(sum(d.tasks_failed), 0),
                   coalesce(sum(d.tasks_cancelled), 0), coalesce(sum(d.deliveries_pending), 0),
                   coalesce(sum(d.deliveries_delivered), 0), coalesce(sum(d.deliveries_dead), 0)
              FROM rvq.counter_deltas AS d GROUP BY d.queue) AS c
     GROUP BY c.queue
$$;
COMMENT ON FUNCTION rvq.read_counters() IS 'Return the exact counters of every queue.';
