-- Locks queued sub_tasks of one lane of a queue: those queued again, or those queued for the first time, from the floor on.
-- Where p_again is NULL: those queued for the first time, unless some are queued again, which come first; and of these only
-- what nobody has touched of late.
-- SKIP LOCKED is not "never waits": a row that was changed while we looked at it, by a transaction that has just ended, is
-- followed to its newest version, and whoever holds that is waited for. One scan goes in the lock order, so this can't be
-- part of a deadlock as long as the caller holds no sub_task yet. But what is found at the end is claimed already: it would stay
-- locked for nothing, and whoever completes it would wait for our commit. So the quick way passes over what others touched: a
-- row's xmax is 0, or who locked or changed it last. One over a thousand transactions old is most likely a claim's that was rolled
-- back; if not, SKIP LOCKED finds out.
-- Locks: sub_tasks by (queued_at, id), with SKIP LOCKED.
-- Callers: rvq.take_queued, rvq.take_more_of_lane
CREATE OR REPLACE FUNCTION rvq.take_lane(p_queue text, p_again boolean, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF p_again THEN
        RETURN ARRAY(
            SELECT s.id FROM rvq.open_sub_tasks AS s
             WHERE s.status = 'queued' AND s.again AND s.queue = p_queue
               AND NOT coalesce((SELECT q.paused FROM rvq.queues AS q WHERE q.queue = p_queue), false)
             ORDER BY s.queued_at, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN ARRAY(
        SELECT s.id FROM rvq.open_sub_tasks AS s
         WHERE s.status = 'queued' AND NOT s.again AND s.queue = p_queue
           AND s.queued_at >= coalesce((SELECT CASE WHEN q.paused THEN 'infinity' ELSE q.claim_floor END
                                          FROM rvq.queues AS q WHERE q.queue = p_queue), '-infinity')
           AND (p_again IS NOT NULL OR NOT EXISTS (
               SELECT FROM rvq.open_sub_tasks AS a WHERE a.status = 'queued' AND a.again AND a.queue = p_queue))
           AND (p_again IS NOT NULL OR age(s.xmax) > 1000)
         ORDER BY s.queued_at, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION rvq.take_lane(text, boolean, integer) IS 'Lock the oldest queued sub_tasks of one lane that nobody holds; their ids.';
