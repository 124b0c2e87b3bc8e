-- A task that nobody works would keep the facts of its whole day for ever. It fails, as at a deadline, p_days after it
-- was created, was reopened by an admin, or its sub_tasks might first run (not_before), whichever is latest. It walks
-- the open tasks of old days a batch at a time; p_after is where the last batch ended.
-- Locks: door, then as rvq.end_tasks.
CREATE OR REPLACE FUNCTION rvq.end_abandoned_tasks(p_days integer, p_after bigint, p_limit integer)
RETURNS TABLE (last_id bigint, abandoned integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_before timestamptz;
    v_abandoned bigint[];
BEGIN
    PERFORM rvq.hold_door();
    v_before := rvq.clock() - make_interval(days => p_days);
    SELECT max(b.id), array_agg(b.id) FILTER (
               WHERE coalesce(b.reopened_at, b.created_at) <= v_before AND NOT EXISTS (
                   SELECT FROM rvq.open_sub_tasks AS s
                    WHERE s.id > b.id AND s.id < b.id + 16384 AND s.queued_at > v_before))
      INTO last_id, v_abandoned
      FROM (SELECT w.*
              FROM (SELECT t.id, t.created_at, t.reopened_at, sum(t.unfinished) OVER (ORDER BY t.id) AS sub_tasks,
                           row_number() OVER (ORDER BY t.id) AS position
                      FROM (SELECT * FROM rvq.open_tasks AS o
                             WHERE o.id > p_after AND o.id < (rvq.day_at(v_before) + 1)::bigint << 48
                             ORDER BY o.id LIMIT p_limit) AS t) AS w
             WHERE w.position = 1 OR w.sub_tasks <= p_limit) AS b;
    abandoned := cardinality(rvq.end_tasks(coalesce(v_abandoned, '{}'), 'failed'));
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.end_abandoned_tasks(integer, bigint, integer) IS
    'Fail tasks that have been open for p_days, in batches of p_limit sub_tasks; return the last task it looked at, '
    'and how many it failed.';
