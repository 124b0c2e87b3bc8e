-- Locks: door, then as rvq.end_tasks.
CREATE OR REPLACE FUNCTION rvq.cancel_task(p_task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
BEGIN
    PERFORM rvq.hold_door();
    IF cardinality(rvq.end_tasks(ARRAY[p_task_id], 'cancelled')) > 0 THEN
        RETURN 'cancelled';
    END IF;
    RETURN CASE WHEN EXISTS (SELECT FROM rvq.tasks AS t WHERE t.id = p_task_id) THEN 'finished' ELSE 'unknown' END;
END $$;
COMMENT ON FUNCTION rvq.cancel_task(bigint) IS
    'Cancel an open task; return cancelled, finished (it was too late) or unknown.';
