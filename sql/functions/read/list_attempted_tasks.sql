-- An open task is running when a sub_task of it has ended, or one has begun an attempt. The latter are found from the
-- side of the sub_tasks: few are claimed or wait for another attempt, however many are queued. It is inlined where it
-- is called.
CREATE OR REPLACE FUNCTION rvq.list_attempted_tasks() RETURNS SETOF bigint
LANGUAGE sql STABLE
AS $$
    SELECT rvq.task_of(s.id) FROM rvq.open_sub_tasks AS s WHERE s.status = 'claimed'
    UNION
    SELECT rvq.task_of(s.id) FROM rvq.open_sub_tasks AS s WHERE s.attempt > 0 AND s.status <> 'claimed'
$$;
COMMENT ON FUNCTION rvq.list_attempted_tasks() IS
    'Return the open tasks with an unfinished sub_task that has begun an attempt.';
