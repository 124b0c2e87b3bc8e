-- It costs the same with any history and any backlog: folded counters, pending deltas, the head of each claim index,
-- and the sub_tasks that are claimed or wait for another attempt (an open task that has one of these is running).
-- Counters that somebody emptied go below 0 as work ends. That is shown as 0; the audit tells how wrong they are.
CREATE OR REPLACE FUNCTION rvq.stats() RETURNS text
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
    WITH counter AS MATERIALIZED (
        SELECT c.queue, c.queued <> 0 AS has_queued, c.tasks_open, c.tasks_started,
               greatest(c.scheduled, 0) AS scheduled, greatest(c.queued, 0) AS queued,
               greatest(c.claimed, 0) AS claimed, greatest(c.succeeded, 0) AS succeeded,
               greatest(c.failed, 0) AS failed, greatest(c.cancelled, 0) AS cancelled,
               greatest(c.tasks_succeeded, 0) AS tasks_succeeded,
               greatest(c.tasks_failed, 0) AS tasks_failed, greatest(c.tasks_cancelled, 0) AS tasks_cancelled,
               greatest(c.deliveries_pending, 0) AS pending, greatest(c.deliveries_delivered, 0) AS delivered,
               greatest(c.deliveries_dead, 0) AS dead
          FROM rvq.read_counters() AS c),
    total AS (
        SELECT coalesce(sum(tasks_open), 0) AS open, coalesce(sum(tasks_started), 0) AS started,
               coalesce(sum(tasks_succeeded), 0) AS tasks_succeeded, coalesce(sum(tasks_failed), 0) AS tasks_failed,
               coalesce(sum(tasks_cancelled), 0) AS tasks_cancelled, coalesce(sum(scheduled), 0) AS scheduled,
               coalesce(sum(queued), 0) AS queued, coalesce(sum(claimed), 0) AS claimed,
               coalesce(sum(succeeded), 0) AS succeeded, coalesce(sum(failed), 0) AS failed,
               coalesce(sum(cancelled), 0) AS cancelled, coalesce(sum(pending), 0) AS pending,
               coalesce(sum(delivered), 0) AS delivered, coalesce(sum(dead), 0) AS dead
          FROM counter),
    attempted AS (
        SELECT count(*) AS tasks
          FROM rvq.list_attempted_tasks() AS s(id)
          JOIN rvq.open_tasks AS t ON t.id = s.id AND t.unfinished = t.total)
    SELECT json_build_object(
        'tasks', json_build_object(
            'queued', greatest(t.open - t.started - attempted.tasks, 0),
            'running', greatest(t.started, 0) + attempted.tasks,
            'succeeded', t.tasks_succeeded, 'failed', t.tasks_failed, 'cancelled', t.tasks_cancelled),
        'sub_tasks', json_build_object('scheduled', t.scheduled, 'queued', t.queued, 'claimed', t.claimed,
                                       'succeeded', t.succeeded, 'failed', t.failed, 'cancelled', t.cancelled),
        'queues', coalesce((SELECT json_object_agg(c.queue, json_build_object(
                                       'scheduled', c.scheduled, 'queued', c.queued, 'claimed', c.claimed,
                                       'succeeded', c.succeeded, 'failed', c.failed, 'cancelled', c.cancelled)
                                       ORDER BY c.queue)
                              FROM counter AS c), '{}'),
        'oldest_queued_seconds',
        (SELECT greatest(0, extract(epoch FROM rvq.clock() - min(rvq.oldest_queued_at(c.queue))))::float8
           FROM counter AS c WHERE c.has_queued),
        'deliveries', json_build_object('pending', t.pending, 'delivered', t.delivered, 'dead', t.dead))::text
      FROM total AS t, attempted
$$;
COMMENT ON FUNCTION rvq.stats() IS
    'Return tasks, sub_tasks, queues and deliveries counted by status, as the JSON document of GET /v1/stats.';
