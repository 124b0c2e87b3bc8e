-- Locks sub_tasks of a queue that are queued for the first time, from the queue's floor on.
-- p_untouched: the usual, quick way to claim, in one statement. It takes nothing when some of the queue are requeued,
-- for they come first, and it passes over what others touched of late. SKIP LOCKED does not mean "never waits": a row
-- that another transaction changed while we looked at it is followed to its newest version, and whoever holds that is
-- waited for. One scan goes in the lock order, so this can't be part of a deadlock as long as the caller holds no
-- sub_task yet. But a row found that way is claimed already: it would stay locked for nothing, and whoever completes it
-- would wait for our commit. Hence p_untouched: a row's xmax is 0, or the last transaction that locked or changed it.
-- One over a thousand transactions old is most likely of a claim that was rolled back; if not, SKIP LOCKED finds out.
-- Locks: sub_tasks by (queued_at, id), with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.take_new(p_queue text, p_limit integer, p_untouched boolean) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN ARRAY(
        SELECT s.id FROM rvq.open_sub_tasks AS s
         WHERE s.status = 'queued' AND NOT s.requeued AND s.queue = p_queue
           AND s.queued_at >= coalesce((SELECT CASE WHEN q.paused THEN 'infinity' ELSE q.claim_floor END
                                          FROM rvq.queues AS q WHERE q.queue = p_queue), '-infinity')
           AND (NOT p_untouched OR NOT EXISTS (
               SELECT FROM rvq.open_sub_tasks AS r WHERE r.status = 'queued' AND r.requeued AND r.queue = p_queue))
           AND (NOT p_untouched OR age(s.xmax) > 1000)
         ORDER BY s.queued_at, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION rvq.take_new(text, integer, boolean) IS
    'Lock the oldest sub_tasks queued for the first time that nobody holds; return their ids.';
