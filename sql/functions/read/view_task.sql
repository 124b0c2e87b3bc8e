-- Unfinished sub_tasks are counted where they are; finished ones come from the open task or, when it ended, from its
-- last event. That is one snapshot, and no write by claim.
CREATE OR REPLACE FUNCTION rvq.view_task(p_task rvq.tasks) RETURNS rvq.task_view
LANGUAGE sql STABLE
AS $$
    SELECT (p_task.id,
            CASE WHEN o.id IS NULL THEN e.status::text
                 WHEN o.unfinished < o.total OR n.attempted THEN 'running' ELSE 'queued' END,
            p_task.queue, p_task.metadata, p_task.webhook_url, p_task.policy::text, p_task.required,
            p_task.deadline_seconds, p_task.created_at, CASE WHEN o.id IS NULL THEN e.occurred_at END, p_task.total,
            n.scheduled, n.queued, n.claimed, coalesce(o.succeeded, e.succeeded), coalesce(o.failed, e.failed),
            CASE WHEN o.id IS NULL THEN e.cancelled ELSE 0 END)::rvq.task_view
      FROM (SELECT count(*) FILTER (WHERE s.status = 'scheduled')::integer AS scheduled,
                   count(*) FILTER (WHERE s.status = 'queued')::integer AS queued,
                   count(*) FILTER (WHERE s.status = 'claimed')::integer AS claimed,
                   coalesce(bool_or(s.attempt > 0), false) AS attempted
              FROM rvq.open_sub_tasks AS s WHERE s.id > p_task.id AND s.id < p_task.id + 16384) AS n
      LEFT JOIN rvq.open_tasks AS o ON o.id = p_task.id
      LEFT JOIN LATERAL (SELECT * FROM rvq.events AS e WHERE e.id >= p_task.id AND e.id < p_task.id + 16384
                          ORDER BY e.id DESC LIMIT 1) AS e ON true
$$;
COMMENT ON FUNCTION rvq.view_task(rvq.tasks) IS 'Return where a task stands.';
