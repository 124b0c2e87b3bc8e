-- Guards those who must not wait for a sub_task, because they hold others that may come later in the lock order. When a
-- lock would have to be waited for, which is rare (see rvq.take_new), nothing is taken. 10 ms are long before
-- PostgreSQL looks for deadlocks (deadlock_timeout, 1 s).
-- p_kind: 'new', 'requeued' or 'due' (of any queue).
-- Locks: sub_tasks with SKIP LOCKED; it waits for one for 10 ms at most.
CREATE OR REPLACE FUNCTION rvq.take_without_waiting(p_kind text, p_queue text, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '10ms'
AS $$
BEGIN
    IF p_kind = 'new' THEN
        RETURN rvq.take_new(p_queue, p_limit, p_untouched => false);
    ELSIF p_kind = 'requeued' THEN
        RETURN rvq.take_requeued(p_queue, p_limit);
    END IF;
    RETURN rvq.take_due(p_limit);
EXCEPTION WHEN lock_not_available THEN
    RETURN '{}';
END $$;
COMMENT ON FUNCTION rvq.take_without_waiting(text, text, integer) IS
    'Lock sub_tasks of this kind that nobody holds; return their ids, none when that would take a wait.';
