"""The SQL of the maintenance steps. In braces: what a step fills in, see Step."""

from __future__ import annotations

RETENTION = "SELECT rvq.drop_expired_partitions({retention_days})"
GIVE_UP = "SELECT rvq.give_up_deliveries({retention_days}, {batch})"
ABANDONED = """
SELECT (SELECT ARRAY[a.abandoned, a.last_id]
          FROM rvq.end_abandoned_tasks({abandoned_days}, {after}, {batch}) AS a)"""
EXPIRE = "SELECT (SELECT ARRAY[e.expired, e.is_full::integer] FROM rvq.expire_leases({batch}) AS e)"
OVERDUE = "SELECT (SELECT ARRAY[e.ended, e.is_full::integer] FROM rvq.end_overdue_tasks({batch}) AS e)"
FLOORS = """
SELECT (SELECT ARRAY[f.raised::text, f.last_queue] FROM rvq.raise_claim_floors('{after}', {batch}) AS f)"""
# A walk over too many dead entries is halved to so many seconds below the floor; the whole one has no bound.
RESCUE = "SELECT rvq.rescue_below_floors({batch}, nullif({batch}, 1000))"
FOLLOW = """
SELECT (SELECT ARRAY[c.shortened, c.last_id] FROM rvq.follow_clock({after}, {batch}) AS c)"""
# The sub-select is evaluated after the lock is taken; a function in FROM might be called before.
SWEEP = """
SELECT (SELECT ARRAY[s.stranded, s.last_id] FROM rvq.sweep_stranded_tasks({after}, {batch}) AS s)"""
FIGURES = """
SELECT 'oldest_due', h.host, greatest(0, extract(epoch FROM rvq.clock() - h.oldest_due_at))::float8
  FROM rvq.list_due_hosts() AS h
UNION ALL
SELECT f.figure, t.relname, f.value
  FROM pg_stat_user_tables AS t
 CROSS JOIN LATERAL (VALUES ('dead_tuples', t.n_dead_tup),
                            ('table_bytes', pg_total_relation_size(t.relid))) AS f(figure, value)
 WHERE t.schemaname = 'rvq'
   AND t.relname IN ('open_tasks', 'open_sub_tasks', 'due_deliveries', 'counter_deltas', 'idempotency_keys')
UNION ALL
SELECT 'set_aside', s.reason, count(*)::float8 FROM rvq.set_aside AS s GROUP BY s.reason
UNION ALL
SELECT 'open_days', '', count(*)::float8 FROM rvq.list_open_days({retention_days})
UNION ALL
SELECT f.figure, s.step, f.value
  FROM rvq.list_due_steps({retention_days}) AS s
 CROSS JOIN LATERAL (VALUES ('due', s.due::float8), ('behind', s.seconds)) AS f(figure, value)
 WHERE f.value IS NOT NULL
UNION ALL
SELECT 'horizon', h.kind, extract(epoch FROM max(h.age))::float8
  FROM rvq.list_horizon_holders() AS h GROUP BY h.kind"""
AUDIT = "SELECT a.queue, a.counter, a.counted, a.truth FROM rvq.audit() AS a WHERE a.counted <> a.truth"
