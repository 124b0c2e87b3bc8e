CREATE OR REPLACE FUNCTION rvq.read_queue(p_queue text)
RETURNS TABLE (paused boolean, scheduled bigint, queued bigint, claimed bigint)
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((SELECT q.paused FROM rvq.queues AS q WHERE q.queue = p_queue), false),
           greatest(coalesce(sum(c.scheduled), 0), 0)::bigint, greatest(coalesce(sum(c.queued), 0), 0)::bigint,
           greatest(coalesce(sum(c.claimed), 0), 0)::bigint
      FROM rvq.read_counters() AS c WHERE c.queue = p_queue
$$;
COMMENT ON FUNCTION rvq.read_queue(text) IS
    'Return whether a queue is paused and what waits in it. A queue nobody used yet is empty and not paused.';
