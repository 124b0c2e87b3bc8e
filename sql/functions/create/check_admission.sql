-- Finds out whether the queue is about to degrade, so that create refuses (503) before claims get slow. Claims and
-- completes go on: they reduce the backlog. What holds vacuum back is rvq.list_horizon_holders.
-- Locks: the row of rvq.admission, rows of xid_times.
CREATE OR REPLACE FUNCTION rvq.check_admission() RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_refusal text;
BEGIN
    PERFORM rvq.note_xid();
    UPDATE rvq.admission AS a
       SET checked_at = rvq.clock(), backlog = s.backlog, transaction_age = coalesce(h.age, '0'),
           dead_tuples = s.dead_tuples,
           refusal = CASE
               WHEN s.backlog > a.max_backlog
                   THEN format('%s sub_tasks wait; the bound is %s', s.backlog, a.max_backlog)
               WHEN h.age > a.max_transaction_age
                   THEN format('%s for %s (%s); the bound is %s', CASE WHEN h.kind IN ('session', 'prepared')
                                   THEN 'a transaction is open' ELSE 'vacuum is held back' END,
                               date_trunc('second', h.age), h.holder, a.max_transaction_age)
               WHEN s.dead_tuples > a.max_dead_tuples
                   THEN format('%s dead tuples wait for vacuum; the bound is %s', s.dead_tuples, a.max_dead_tuples) END
      FROM (SELECT (SELECT coalesce(sum(c.queued + c.scheduled), 0) FROM rvq.counters AS c)::bigint AS backlog,
                   (SELECT coalesce(sum(t.n_dead_tup), 0) FROM pg_stat_user_tables AS t
                     WHERE t.schemaname = 'rvq' AND t.relname IN (
                         'open_tasks', 'open_sub_tasks', 'due_deliveries', 'counter_deltas'))::bigint AS dead_tuples
           ) AS s
      LEFT JOIN (SELECT * FROM rvq.list_horizon_holders() AS l ORDER BY l.age DESC LIMIT 1) AS h ON true
    RETURNING a.refusal INTO v_refusal;
    RETURN v_refusal;
END $$;
COMMENT ON FUNCTION rvq.check_admission() IS
    'Measure the health of the queue; return why create refuses from now on, or NULL.';
