"""The dispatcher's one door to the database: each call is one statement, one transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from app.db import Pool, Row
from app.settings import Settings
from dispatcher.delivery import Delivery, Result

NAME = "rvq-dispatcher"
SLOW_STATEMENT_MS = 300_000

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
# Tried before anything in the SELECT list is evaluated, and held until the statement's transaction ends.
IF_ALONE = " WHERE pg_try_advisory_xact_lock(4, {lock_key})"


class Store:
    """`pool` is for short statements; `slow_pool` for maintenance that may take minutes."""

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
        # What no standby has confirmed is not sent: it may be undone, and a webhook can't be.
        rows = self._pool.change_rows(CLAIM, (limit, lease_seconds, host_limit, *host_limits))
        return [
            Delivery(id_, attempt, tries, url, host, body.encode(), token, waited, expires_at)
            for id_, attempt, tries, url, host, body, token, waited in rows
        ]

    def settle(self, results: Sequence[Result]) -> set[int]:
        """Record attempts and what follows; return the ids of those whose lease still held."""
        columns = zip(*map(_settle_row, results), strict=True)
        return set(self._pool.change(SETTLE, [list(column) for column in columns], may_be_local=True))

    def release(self, deliveries: Sequence[Delivery]) -> int:
        """Give back deliveries that were not started, and return how many: no attempt is spent."""
        ids, tokens = [d.id for d in deliveries], [d.lease_token for d in deliveries]
        return int(self._pool.change(RELEASE, (ids, tokens), may_be_local=True))

    def run_step(self, sql: str, lock_key: int | None, *, is_slow: bool) -> list[Row] | None:
        """Run a maintenance step's SELECT and return its rows, or None while another dispatcher runs it."""
        pool = self._slow_pool if is_slow else self._pool
        if is_slow:
            # Whoever writes first after a server's start records it, and others wait for that to commit.
            pool.rows("SELECT rvq.know_server()")
        # Set again, as a pooler may have dropped what the pool asked for when it connected.
        limit_ms = SLOW_STATEMENT_MS if is_slow else None
        if lock_key is None:
            return pool.rows(sql, limit_ms=limit_ms)
        statement = sql + IF_ALONE.format(lock_key=lock_key)
        return pool.change_rows(statement, limit_ms=limit_ms, may_be_local=True) or None


def make_store(settings: Settings) -> Store:
    """Return a store of exactly DISPATCHER_DB_POOL connections, one of them for what takes long."""
    url, size = settings.database_url, settings.dispatcher_db_pool
    pool = Pool(url, max(1, size - 1), NAME, max_waiting=32, wait_seconds=5.0)
    if size == 1:
        return Store(pool)
    slow_pool = Pool(url, 1, NAME, max_waiting=2, wait_seconds=600.0, statement_timeout_ms=SLOW_STATEMENT_MS)
    return Store(pool, slow_pool)


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
        attempt.response_body or None,
    )
