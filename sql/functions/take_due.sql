-- Not in the lock order but in that of its index, and claim calls it while it holds sub_tasks: when it would have to wait
-- (see rvq.take_queued, it is rare), it takes none. Long before PostgreSQL looks for deadlocks (deadlock_timeout, 1 s).
-- Locks: sub_tasks with SKIP LOCKED, and for 10 ms at most.
-- Callers: rvq.promote_due
CREATE OR REPLACE FUNCTION rvq.take_due(p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '10ms'
AS $$
BEGIN
    RETURN ARRAY(SELECT s.id FROM rvq.open_sub_tasks AS s WHERE s.status = 'scheduled' AND s.due_at <= rvq.clock()
                  ORDER BY s.due_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
EXCEPTION WHEN lock_not_available THEN
    RETURN '{}';
END $$;
COMMENT ON FUNCTION rvq.take_due(integer) IS 'Lock scheduled sub_tasks that are due and that nobody holds; their ids.';
