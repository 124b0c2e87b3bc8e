-- Locks: door; sub_tasks with SKIP LOCKED (see rvq.take_without_waiting).
CREATE OR REPLACE FUNCTION rvq.promote_due(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_due bigint[];
    v_promoted integer;
BEGIN
    PERFORM rvq.hold_door();
    IF NOT EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.status = 'scheduled' AND s.due_at <= rvq.clock()) THEN
        RETURN 0;
    END IF;
    v_due := rvq.take_without_waiting('due', NULL, p_limit);
    WITH promoted AS (
        UPDATE rvq.open_sub_tasks AS s SET status = 'queued', requeued = true, due_at = NULL
         WHERE s.id = ANY (v_due) RETURNING s.queue),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued)
        SELECT p.queue, -count(*), count(*) FROM promoted AS p GROUP BY p.queue)
    SELECT count(*) INTO v_promoted FROM promoted;
    RETURN v_promoted;
END $$;
COMMENT ON FUNCTION rvq.promote_due(integer) IS
    'Queue the scheduled sub_tasks whose time has come, a batch at a time; return how many.';
