-- A clock that steps back at the very moment when a floor rises may leave a new sub_task below it, where claim does not
-- look. Once requeued, it is found. What was queued before a clock was set back, at a time that lies ahead now, is
-- requeued too: it would be claimed after all that is created meanwhile. This walks the dead entries that the floor is
-- there to avoid: once a minute, not at each claim. Where they are too many for one walk, p_seconds says how far below
-- the floor to look (NULL: all the way).
-- Locks: door; sub_tasks by (queued_at, id), with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.rescue_below_floors(p_limit integer DEFAULT 1000, p_seconds float8 DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_below bigint[];
    v_ahead bigint[];
    v_rescued integer;
    v_now timestamptz;
BEGIN
    PERFORM rvq.hold_door();
    v_now := rvq.clock();
    v_below := ARRAY(
        SELECT s.id
          FROM rvq.queues AS q
          CROSS JOIN LATERAL (
              SELECT o.id FROM rvq.open_sub_tasks AS o
               WHERE o.status = 'queued' AND NOT o.requeued AND o.queue = q.queue AND o.queued_at < q.claim_floor
                 AND o.queued_at >= coalesce(q.claim_floor - make_interval(secs => p_seconds), '-infinity')
               ORDER BY o.queued_at LIMIT p_limit) AS s
         LIMIT p_limit);
    v_ahead := ARRAY(
        SELECT s.id
          FROM rvq.queues AS q
          CROSS JOIN LATERAL (
              SELECT o.id FROM rvq.open_sub_tasks AS o
               WHERE o.status = 'queued' AND NOT o.requeued AND o.queue = q.queue
                 AND o.queued_at > v_now + interval '1 minute'
               ORDER BY o.queued_at LIMIT p_limit) AS s
         LIMIT p_limit);
    WITH below AS MATERIALIZED (
        SELECT s.id FROM rvq.open_sub_tasks AS s
         WHERE s.id = ANY (v_below || v_ahead) AND s.status = 'queued' AND NOT s.requeued
         ORDER BY s.queued_at, s.id FOR UPDATE OF s SKIP LOCKED)
    UPDATE rvq.open_sub_tasks AS s SET requeued = true FROM below AS b WHERE s.id = b.id;
    GET DIAGNOSTICS v_rescued = ROW_COUNT;
    RETURN v_rescued;
END $$;
COMMENT ON FUNCTION rvq.rescue_below_floors(integer, float8) IS
    'Requeue sub_tasks that are queued below their queue''s floor, or at a time ahead, in batches; return how many.';
