-- One pass over the queues. Sub_tasks queued again go first: they are the older ones.
-- MATERIALIZED: otherwise the planner may run the inner select once a row and take more than the limit.
-- Locks: sub_tasks, SKIP LOCKED.
-- Callers: rvq.claim_sub_tasks
CREATE OR REPLACE FUNCTION rvq.take_queued(p_worker_id text, p_limit integer, p_lease_seconds integer, p_queues text[])
RETURNS rvq.open_sub_tasks[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_claimed rvq.open_sub_tasks[] := '{}';
    v_taken rvq.open_sub_tasks[];
    v_until timestamptz := rvq.clock() + make_interval(secs => p_lease_seconds);
    v_random text := rvq.draw();
    v_queue text;
    v_known rvq.queues;
BEGIN
    FOREACH v_queue IN ARRAY p_queues LOOP
        SELECT * INTO v_known FROM rvq.queues AS q WHERE q.queue = v_queue;
        CONTINUE WHEN v_known.paused;
        IF EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND s.again AND s.queue = v_queue) THEN
            WITH picked AS MATERIALIZED (
                SELECT s.id FROM rvq.open_sub_tasks AS s
                 WHERE s.status = 'queued' AND s.again AND s.queue = v_queue
                 ORDER BY s.queued_at, s.id LIMIT p_limit - cardinality(v_claimed) FOR UPDATE SKIP LOCKED),
            claimed AS (
                UPDATE rvq.open_sub_tasks AS s
                   SET status = 'claimed', attempt = s.attempt + 1, worker_id = p_worker_id, due_at = NULL,
                       lease_token = rvq.lease_token(v_random, s.id), lease_expires_at = v_until
                  FROM picked WHERE s.id = picked.id RETURNING s.*)
            SELECT coalesce(array_agg(c::rvq.open_sub_tasks ORDER BY c.queued_at, c.id), '{}') INTO v_taken FROM claimed AS c;
            v_claimed := v_claimed || v_taken;
            EXIT WHEN cardinality(v_claimed) >= p_limit;
        END IF;
        WITH picked AS MATERIALIZED (
            SELECT s.id FROM rvq.open_sub_tasks AS s
             WHERE s.status = 'queued' AND NOT s.again AND s.queue = v_queue
               AND s.queued_at >= coalesce(v_known.claim_floor, '-infinity')
             ORDER BY s.queued_at, s.id LIMIT p_limit - cardinality(v_claimed) FOR UPDATE SKIP LOCKED),
        claimed AS (
            UPDATE rvq.open_sub_tasks AS s
               SET status = 'claimed', attempt = s.attempt + 1, worker_id = p_worker_id, due_at = NULL,
                   lease_token = rvq.lease_token(v_random, s.id), lease_expires_at = v_until
              FROM picked WHERE s.id = picked.id RETURNING s.*)
        SELECT coalesce(array_agg(c::rvq.open_sub_tasks ORDER BY c.queued_at, c.id), '{}') INTO v_taken FROM claimed AS c;
        v_claimed := v_claimed || v_taken;
        EXIT WHEN cardinality(v_claimed) >= p_limit;
    END LOOP;
    RETURN v_claimed;
END $$;
COMMENT ON FUNCTION rvq.take_queued(text, integer, integer, text[]) IS 'Claim what is queued now, without looking at what is scheduled.';
