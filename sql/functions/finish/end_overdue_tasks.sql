-- Locks: door, then as rvq.end_tasks.
CREATE OR REPLACE FUNCTION rvq.end_overdue_tasks(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
BEGIN
    PERFORM rvq.hold_door();
    RETURN cardinality(rvq.end_tasks(ARRAY(
        SELECT t.id FROM rvq.open_tasks AS t WHERE t.deadline_at <= rvq.clock()
         ORDER BY t.deadline_at LIMIT p_limit), 'failed'));
END $$;
COMMENT ON FUNCTION rvq.end_overdue_tasks(integer) IS
    'Fail the tasks whose deadline has passed, a batch at a time; return how many.';
