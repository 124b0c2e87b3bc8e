CREATE OR REPLACE FUNCTION rvq.oldest_queued_at(p_queue text) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_floor timestamptz := (SELECT q.claim_floor FROM rvq.queues AS q WHERE q.queue = p_queue);
BEGIN
    RETURN least(
        (SELECT s.queued_at FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND s.requeued AND s.queue = p_queue
          ORDER BY s.queued_at LIMIT 1),
        (SELECT s.queued_at FROM rvq.open_sub_tasks AS s
          WHERE s.status = 'queued' AND NOT s.requeued AND s.queue = p_queue
            AND s.queued_at >= coalesce(v_floor, '-infinity') ORDER BY s.queued_at LIMIT 1));
END $$;
COMMENT ON FUNCTION rvq.oldest_queued_at(text) IS 'Return since when the oldest queued sub_task of a queue is queued.';
