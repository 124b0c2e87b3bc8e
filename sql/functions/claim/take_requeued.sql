-- Locks: sub_tasks by (queued_at, id), with SKIP LOCKED, which may wait (see rvq.take_new).
CREATE OR REPLACE FUNCTION rvq.take_requeued(p_queue text, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN ARRAY(
        SELECT s.id FROM rvq.open_sub_tasks AS s
         WHERE s.status = 'queued' AND s.requeued AND s.queue = p_queue
           AND NOT coalesce((SELECT q.paused FROM rvq.queues AS q WHERE q.queue = p_queue), false)
         ORDER BY s.queued_at, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION rvq.take_requeued(text, integer) IS
    'Lock the oldest requeued sub_tasks of a queue that nobody holds; return their ids.';
