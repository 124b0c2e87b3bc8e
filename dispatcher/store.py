"""The dispatcher's one door to the database: each call is one statement, one transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.db import Pool
from dispatcher.delivery import Delivery, Result

# A step is done by one dispatcher at a time, whoever comes first: a lock for the length of the statement, as
# a session's lock would not outlive a transaction behind PgBouncer, and a leader would have to be replaced.
ONLY_ONE = "SELECT {call} WHERE pg_try_advisory_xact_lock(4, {key})"
STEPS = {
    "promote_due": "rvq.promote_due(1000)",
    "expire_leases": "rvq.expire_leases(500)",
    "end_overdue_tasks": "rvq.end_overdue_tasks(100)",
    "expire_delivery_leases": "rvq.expire_delivery_leases(500)",
    "fold_counters": "rvq.fold_counters()",
    "raise_claim_floors": "rvq.raise_claim_floors()",
    "rescue_below_floors": "rvq.rescue_below_floors()",
    "check_admission": "(rvq.check_admission() IS NOT NULL)::integer",
    "create_partitions": "rvq.create_partitions(7)",
}
DROP_PARTITIONS = ONLY_ONE.format(call="rvq.drop_expired_partitions(%s)", key=20)
SWEEP = """
SELECT s.last_id, s.stranded
  FROM (SELECT pg_try_advisory_xact_lock(4, 21) AS mine) AS l
  CROSS JOIN LATERAL rvq.sweep_stranded_tasks(%s, %s) AS s
 WHERE l.mine"""
AUDIT = "SELECT a.queue, a.counter, a.counted, a.truth FROM rvq.audit() AS a WHERE a.counted <> a.truth"

CLAIM = """
SELECT c.id, c.attempt, c.tries, c.url, c.host, c.body, c.lease_token::text, c.waited
  FROM rvq.claim_deliveries(%s, %s, %s, %s::text[], %s::integer[]) AS c"""
SETTLE = """
SELECT rvq.settle_deliveries(%s::bigint[], %s::uuid[], %s::text[], %s::float8[], %s::float8[], %s::text[],
                             %s::integer[], %s::text[], %s::bytea[])"""
RELEASE = "SELECT rvq.release_deliveries(%s::bigint[], %s::uuid[])"
# The first call of a function in a backend compiles it and plans its statements.
WARM_UP = (
    "SELECT * FROM rvq.claim_deliveries(0, 1, 0)",
    "SELECT rvq.settle_deliveries('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
)

WAITING = """
SELECT h.host, greatest(0, extract(epoch FROM rvq.clock() - h.oldest_due_at))::float8
  FROM rvq.list_due_hosts() AS h"""
TABLES = """
SELECT t.relname, t.n_dead_tup, pg_total_relation_size(t.relid)
  FROM pg_stat_user_tables AS t WHERE t.schemaname = 'rvq' AND t.relname = ANY (%s)"""
OPEN_TABLES = ["open_tasks", "open_sub_tasks", "due_deliveries", "counter_deltas", "idempotency_keys"]
OLDEST_TRANSACTION = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float8
  FROM pg_stat_activity AS a WHERE a.backend_type = 'client backend' AND a.datname = current_database()"""


@dataclass(frozen=True, slots=True)
class Drift:
    """A counter that is not what counting the rows gives."""

    queue: str
    counter: str
    counted: int
    truth: int


class Store:
    """`pool` for short statements; `slow_pool` for the audit and for retention, which may take minutes."""

    def __init__(self, pool: Pool, slow_pool: Pool | None = None) -> None:
        self._pool = pool
        self._slow_pool = slow_pool or pool

    def open(self) -> None:
        """Connect and warm every connection. Raises DatabaseUnavailable."""
        self._pool.open(WARM_UP)
        if self._slow_pool is not self._pool:
            self._slow_pool.open()

    def close(self) -> None:
        self._pool.close()
        self._slow_pool.close()

    def claim(
        self, limit: int, lease_seconds: float, host_limit: int, host_limits: tuple[list[str], list[int]]
    ) -> list[Delivery]:
        """Lease up to `limit` deliveries that are due, of each host up to its limit."""
        expires_at = time.monotonic() + lease_seconds
        rows = self._pool.rows(CLAIM, (limit, lease_seconds, host_limit, *host_limits))
        return [
            Delivery(id_, attempt, tries, url, host, body.encode(), token, waited, expires_at)
            for id_, attempt, tries, url, host, body, token, waited in rows
        ]

    def settle(self, results: Sequence[Result]) -> set[int]:
        """Record attempts and what follows; the ids of those whose lease still held."""
        columns = zip(*map(_settle_row, results), strict=True)
        return set(self._pool.value(SETTLE, [list(column) for column in columns]))

    def release(self, deliveries: Sequence[Delivery]) -> int:
        """Give back what was not started: no attempt is spent."""
        ids, tokens = [d.id for d in deliveries], [d.lease_token for d in deliveries]
        return int(self._pool.value(RELEASE, (ids, tokens)))

    def run_step(self, name: str) -> int | None:
        """One bounded batch of a maintenance step: how much it did, None when another dispatcher does it."""
        key = list(STEPS).index(name)
        return _only_value(self._pool.rows(ONLY_ONE.format(call=STEPS[name], key=key)))

    def drop_expired_partitions(self, days: int) -> int | None:
        """The next step of retention: how much it did, None when another dispatcher does it."""
        return _only_value(self._slow_pool.rows(DROP_PARTITIONS, (days,)))

    def sweep_stranded_tasks(self, after: int, limit: int) -> tuple[int | None, int]:
        """Look at `limit` open tasks after that id: the last one's (None: no more), how many stranded."""
        row = self._pool.row(SWEEP, (after, limit))
        return (row[0], row[1]) if row else (None, 0)

    def audit(self) -> list[Drift]:
        """Counters that differ from the truth. Reads all facts."""
        return [Drift(*row) for row in self._slow_pool.rows(AUDIT)]

    def waiting_by_host(self) -> dict[str, float]:
        """Hosts with deliveries that nobody is sending: seconds since the oldest was due."""
        return dict(self._pool.rows(WAITING))

    def table_figures(self) -> list[tuple[str, int, int]]:
        """Of each table that is updated: name, dead tuples, bytes."""
        return [(name, dead, size) for name, dead, size in self._pool.rows(TABLES, (OPEN_TABLES,))]

    def oldest_transaction_seconds(self) -> float:
        return float(self._pool.value(OLDEST_TRANSACTION))


def _settle_row(result: Result) -> tuple[Any, ...]:
    delivery, attempt, decision = result.delivery, result.attempt, result.decision
    detail = attempt.as_detail()
    if decision.kind == "dead":
        detail["reason"] = decision.reason
    return (
        delivery.id,
        delivery.lease_token,
        decision.kind,
        decision.delay or 0.0,
        time.monotonic() - result.started,
        attempt.outcome,
        attempt.status_code,
        json.dumps(detail),
        attempt.answer or None,
    )


def _only_value(rows: list[tuple[Any, ...]]) -> int | None:
    return int(rows[0][0]) if rows else None
