-- The safety net under fan-in ends an open task without an open sub_task. It should never find one; what it finds is
-- counted. A sub_task that left no trace counts as one that failed. It walks the open tasks a batch at a time; p_after
-- is where the last batch ended.
-- Locks: door, tasks by id.
CREATE OR REPLACE FUNCTION rvq.sweep_stranded_tasks(p_after bigint, p_limit integer)
RETURNS TABLE (last_id bigint, stranded integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_stranded bigint[];
    v_id bigint;
    v_end_as rvq.task_status;
BEGIN
    PERFORM rvq.hold_door();
    SELECT max(b.id), array_agg(b.id) FILTER (WHERE NOT EXISTS (
               SELECT FROM rvq.open_sub_tasks AS s WHERE s.id > b.id AND s.id < b.id + 16384))
      INTO last_id, v_stranded
      FROM (SELECT t.id FROM rvq.open_tasks AS t WHERE t.id > p_after ORDER BY t.id LIMIT p_limit) AS b;
    stranded := 0;
    FOREACH v_id IN ARRAY coalesce(v_stranded, '{}') LOOP
        SELECT rvq.decide_task(t.policy, t.required, 0, t.succeeded, t.total - t.succeeded) INTO v_end_as
          FROM rvq.open_tasks AS t WHERE t.id = v_id FOR UPDATE;
        CONTINUE WHEN NOT FOUND
            OR EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.id > v_id AND s.id < v_id + 16384);
        PERFORM rvq.advance_tasks(ARRAY[v_id], '{}', '{}', v_end_as, rvq.clock());
        stranded := stranded + 1;
    END LOOP;
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.sweep_stranded_tasks(bigint, integer) IS
    'End open tasks that have no open sub_task; return the last task it looked at, and how many it found.';
