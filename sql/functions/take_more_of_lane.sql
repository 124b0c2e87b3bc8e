-- For a caller that holds sub_tasks already, which may come later in the lock order: when it would have to wait (see
-- rvq.take_lane, it is rare), it takes none here. Long before PostgreSQL looks for deadlocks (deadlock_timeout, 1 s).
-- Locks: sub_tasks with SKIP LOCKED, and for 10 ms at most.
-- Callers: rvq.take_queued
CREATE OR REPLACE FUNCTION rvq.take_more_of_lane(p_queue text, p_again boolean, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '10ms'
AS $$
BEGIN
    RETURN rvq.take_lane(p_queue, p_again, p_limit);
EXCEPTION WHEN lock_not_available THEN
    RETURN '{}';
END $$;
COMMENT ON FUNCTION rvq.take_more_of_lane(text, boolean, integer) IS 'As rvq.take_lane, without ever waiting for long.';
