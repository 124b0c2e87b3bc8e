-- Locks: the queue's row.
CREATE OR REPLACE FUNCTION rvq.set_queue_paused(p_queue text, p_paused boolean) RETURNS void
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO rvq.queues (queue, paused) VALUES (p_queue, p_paused)
    ON CONFLICT (queue) DO UPDATE SET paused = p_paused
$$;
COMMENT ON FUNCTION rvq.set_queue_paused(text, boolean) IS 'Pause a queue (claim skips it) or resume it.';
