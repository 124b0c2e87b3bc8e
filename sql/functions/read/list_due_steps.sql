-- What is due and not done yet says how far maintenance is behind, whoever does it. Each count ends at 10 000 (that of
-- deltas at 100 000, of which some thousands are normal), so it is quick however much waits.
-- p_days: of retention; NULL leaves that step out.
CREATE OR REPLACE FUNCTION rvq.list_due_steps(p_days integer DEFAULT NULL)
RETURNS TABLE (step text, due bigint, seconds float8, is_behind boolean)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz := rvq.clock();
    v_today integer := rvq.day_at(v_now);
BEGIN
    RETURN QUERY
    SELECT d.step, d.due, greatest(0, extract(epoch FROM v_now - d.since))::float8,
           coalesce(d.since < v_now - interval '1 minute', false)
      FROM (SELECT 'promote_due', count(*), min(s.at)
              FROM (SELECT o.due_at FROM rvq.open_sub_tasks AS o WHERE o.status = 'scheduled' AND o.due_at <= v_now
                     ORDER BY o.due_at LIMIT 10000) AS s(at)
            UNION ALL
            SELECT 'expire_leases', count(*), min(nullif(s.at, '-infinity'))
              FROM (SELECT o.lease_expires_at FROM rvq.open_sub_tasks AS o
                     WHERE o.status = 'claimed' AND o.lease_expires_at <= v_now
                     ORDER BY o.lease_expires_at LIMIT 10000) AS s(at)
            UNION ALL
            SELECT 'end_overdue_tasks', count(*), min(t.at)
              FROM (SELECT o.deadline_at FROM rvq.open_tasks AS o WHERE o.deadline_at <= v_now
                     ORDER BY o.deadline_at LIMIT 10000) AS t(at)
            UNION ALL
            SELECT 'expire_delivery_leases', count(*), min(l.at)
              FROM (SELECT d.lease_expires_at FROM rvq.due_deliveries AS d
                     WHERE d.lease_token IS NOT NULL AND d.lease_expires_at <= v_now
                     ORDER BY d.host, d.lease_expires_at LIMIT 10000) AS l(at)
            UNION ALL
            SELECT 'drop_expired_partitions', count(*), min(e.ended_at + make_interval(days => p_days + 1))
              FROM rvq.ended_days AS e WHERE e.ended_at <= v_now - make_interval(days => p_days + 1)
           ) AS d(step, due, since)
     WHERE p_days IS NOT NULL OR d.step <> 'drop_expired_partitions';
    RETURN QUERY
    SELECT 'fold_counters', count(*), NULL::float8, count(*) = 100000
      FROM (SELECT FROM rvq.counter_deltas LIMIT 100000) AS d;
    RETURN QUERY
    SELECT 'create_partitions', count(*), NULL::float8, coalesce(min(d.day) <= v_today + 1, false)
      FROM generate_series(v_today, v_today + 7) AS d(day)
     WHERE to_regclass(format('rvq.%I', 'sub_tasks_' || d.day)) IS NULL
        OR to_regclass(format('rvq.%I', 'outcomes_' || d.day)) IS NULL;
END $$;
COMMENT ON FUNCTION rvq.list_due_steps(integer) IS
    'Return for each step of maintenance how much is due, for how many seconds, and whether that is late.';
