-- Finds out whether the queue is about to degrade, so that create refuses (503) before claims get slow. Claims and
-- completes go on: they reduce the backlog. Only members of pg_read_all_stats see the transactions of other roles.
-- Locks: the row of rvq.admission.
CREATE OR REPLACE FUNCTION rvq.check_admission() RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_refusal text;
BEGIN
    UPDATE rvq.admission AS a
       SET checked_at = rvq.clock(), backlog = s.backlog, transaction_age = s.transaction_age,
           dead_tuples = s.dead_tuples,
           refusal = CASE
               WHEN s.backlog > a.max_backlog
                   THEN format('%s sub_tasks wait; the bound is %s', s.backlog, a.max_backlog)
               WHEN s.transaction_age > a.max_transaction_age
                   THEN format('a transaction is open for %s; the bound is %s',
                               date_trunc('second', s.transaction_age), a.max_transaction_age)
               WHEN s.dead_tuples > a.max_dead_tuples
                   THEN format('%s dead tuples wait for vacuum; the bound is %s', s.dead_tuples, a.max_dead_tuples) END
      FROM (SELECT (SELECT coalesce(sum(c.queued + c.scheduled), 0) FROM rvq.counters AS c)::bigint AS backlog,
                   (SELECT coalesce(max(clock_timestamp() - t.xact_start), '0') FROM pg_stat_activity AS t
                     WHERE t.backend_xmin IS NOT NULL AND t.datname = current_database()
                       AND t.pid <> pg_backend_pid()) AS transaction_age,
                   (SELECT coalesce(sum(t.n_dead_tup), 0) FROM pg_stat_user_tables AS t
                     WHERE t.schemaname = 'rvq' AND t.relname IN (
                         'open_tasks', 'open_sub_tasks', 'due_deliveries', 'counter_deltas'))::bigint AS dead_tuples
           ) AS s
    RETURNING a.refusal INTO v_refusal;
    RETURN v_refusal;
END $$;
COMMENT ON FUNCTION rvq.check_admission() IS
    'Measure the health of the queue; return why create refuses from now on, or NULL.';
