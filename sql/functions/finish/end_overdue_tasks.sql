-- A task has up to 10 000 sub_tasks, so a batch is bounded in both: p_limit tasks, and a hundred times as many
-- sub_tasks beyond those of the first one.
-- Locks: door, then as rvq.end_tasks.
CREATE OR REPLACE FUNCTION rvq.end_overdue_tasks(p_limit integer) RETURNS TABLE (ended integer, is_full boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_found integer;
    v_ids bigint[];
BEGIN
    PERFORM rvq.hold_door();
    v_now := rvq.clock();
    SELECT count(*), coalesce(array_agg(o.id) FILTER (WHERE o.sub_tasks <= 100 * p_limit), '{}')
      INTO v_found, v_ids
      FROM (SELECT d.id, sum(d.unfinished) OVER w - first_value(d.unfinished) OVER w AS sub_tasks
              FROM (SELECT * FROM rvq.open_tasks AS t WHERE t.deadline_at <= v_now
                     ORDER BY t.deadline_at LIMIT p_limit) AS d
            WINDOW w AS (ORDER BY d.deadline_at, d.id ROWS UNBOUNDED PRECEDING)) AS o;
    ended := cardinality(rvq.end_tasks(v_ids, 'failed'));
    is_full := v_found > 0 AND (v_found = p_limit OR v_found > cardinality(v_ids));
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.end_overdue_tasks(integer) IS
    'Fail the tasks whose deadline has passed, a batch at a time; return how many, and whether there may be more.';
