-- Found from the side of the sub_tasks, of which few are held or wait for another attempt, however many are queued. Inlined
-- where it is called.
-- Callers: rvq.list_tasks, rvq.stats
CREATE OR REPLACE FUNCTION rvq.tried_tasks() RETURNS SETOF bigint
LANGUAGE sql STABLE
AS $$
    SELECT rvq.task_of(s.id) FROM rvq.open_sub_tasks AS s WHERE s.status = 'claimed'
    UNION
    SELECT rvq.task_of(s.id) FROM rvq.open_sub_tasks AS s WHERE s.attempt > 0 AND s.status <> 'claimed'
$$;
COMMENT ON FUNCTION rvq.tried_tasks() IS 'The open tasks with an unfinished sub_task that was claimed.';
