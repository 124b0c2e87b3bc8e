-- Counters and truth are read in one snapshot. It reads all facts, which takes minutes on a large history, and blocks
-- nobody.
CREATE OR REPLACE FUNCTION rvq.audit() RETURNS TABLE (queue text, counter text, counted bigint, truth bigint)
LANGUAGE sql STABLE
AS $$
    WITH truth AS (
        SELECT s.queue, s.status::text AS counter, count(*) AS n FROM rvq.open_sub_tasks AS s GROUP BY 1, 2
        UNION ALL
        SELECT t.queue, l.status::text, count(*)
          FROM (SELECT DISTINCT ON (o.id) o.id, o.status FROM rvq.outcomes AS o WHERE o.status <> 'retrying'
                 ORDER BY o.id, o.attempt DESC, o.status DESC) AS l
          JOIN rvq.tasks AS t ON t.id = rvq.task_of(l.id)
         WHERE NOT EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.id = l.id) GROUP BY 1, 2
        UNION ALL
        SELECT t.queue, 'tasks_open', count(*) FROM rvq.open_tasks AS t GROUP BY 1
        UNION ALL
        SELECT t.queue, 'tasks_started', count(*) FROM rvq.open_tasks AS t WHERE t.unfinished < t.total GROUP BY 1
        UNION ALL
        SELECT t.queue, 'tasks_' || l.status, count(*)
          FROM (SELECT DISTINCT ON (rvq.task_of(e.id)) rvq.task_of(e.id) AS id, e.status FROM rvq.events AS e
                 ORDER BY rvq.task_of(e.id), e.id DESC) AS l
          JOIN rvq.tasks AS t ON t.id = l.id
         WHERE NOT EXISTS (SELECT FROM rvq.open_tasks AS o WHERE o.id = l.id) GROUP BY 1, t.queue, l.status
        UNION ALL
        SELECT d.queue, 'deliveries_pending', count(*) FROM rvq.due_deliveries AS d GROUP BY 1
        UNION ALL
        SELECT t.queue, 'deliveries_' || l.status, count(*)
          FROM (SELECT DISTINCT ON (a.id) a.id, a.status FROM rvq.delivery_attempts AS a
                 ORDER BY a.id, a.attempt DESC) AS l
          JOIN rvq.tasks AS t ON t.id = rvq.task_of(l.id)
         WHERE NOT EXISTS (SELECT FROM rvq.due_deliveries AS d WHERE d.id = l.id) GROUP BY t.queue, l.status),
    counted AS (
        SELECT c.queue, n.counter, n.n
          FROM rvq.read_counters() AS c
          CROSS JOIN LATERAL (VALUES
              ('scheduled', c.scheduled), ('queued', c.queued), ('claimed', c.claimed), ('succeeded', c.succeeded),
              ('failed', c.failed), ('cancelled', c.cancelled), ('tasks_open', c.tasks_open),
              ('tasks_started', c.tasks_started), ('tasks_succeeded', c.tasks_succeeded),
              ('tasks_failed', c.tasks_failed), ('tasks_cancelled', c.tasks_cancelled),
              ('deliveries_pending', c.deliveries_pending), ('deliveries_delivered', c.deliveries_delivered),
              ('deliveries_dead', c.deliveries_dead)) AS n(counter, n))
    SELECT coalesce(c.queue, t.queue), coalesce(c.counter, t.counter), coalesce(c.n, 0), coalesce(t.n, 0)
      FROM counted AS c FULL JOIN truth AS t ON t.queue = c.queue AND t.counter = c.counter
     WHERE coalesce(c.n, 0) <> 0 OR coalesce(t.n, 0) <> 0
     ORDER BY 1, 2
$$;
COMMENT ON FUNCTION rvq.audit() IS
    'Return every counter that is not 0, beside what counting the rows gives; the two should be equal.';
