-- This is the one place that waits for more than one sub_task.
-- Locks: sub_tasks by (queued_at, id).
CREATE OR REPLACE FUNCTION rvq.lock_sub_tasks(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM 1 FROM rvq.open_sub_tasks AS s WHERE s.id = ANY (p_ids) ORDER BY s.queued_at, s.id FOR UPDATE;
END $$;
COMMENT ON FUNCTION rvq.lock_sub_tasks(bigint[]) IS 'Lock these open sub_tasks in the one lock order.';
