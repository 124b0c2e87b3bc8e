"""The worker API's calls to the database: the only module of this audience that names SQL functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from app.db import Pool

# Stand for "the next one" and "none" in joined results and errors; no JSON has these bytes.
SEPARATOR, NONE = "\x1e", "\x1f"

# The first call on a connection plans every statement in the function. No queue can have this name.
WARM_UP = (
    "SELECT * FROM rvq.claim_sub_tasks('-', 1, 1, '{-}')",
    "SELECT rvq.complete_sub_tasks('-', '{0}', '{00000000-0000-0000-0000-000000000000}', '{f}',"
    " '{null}', '{null}', '{f}', '{null}')",
    "SELECT rvq.heartbeat_sub_tasks(1, '{}', '{}')",
)
_CLAIM = "SELECT * FROM rvq.claim_sub_tasks(%s, %s, %s, %s::text[])"
_COMPLETE = (
    "SELECT rvq.complete_sub_tasks(%s, %s::bigint[], %s::uuid[], %s::boolean[],"
    " string_to_array(%s, E'\\x1e', E'\\x1f'), string_to_array(%s, E'\\x1e', E'\\x1f'),"
    " %s::boolean[], %s::float8[])"
)


class ClaimedRow(NamedTuple):
    id: int
    queue: str
    attempt: int
    max_attempts: int
    payload: str
    lease_token: str
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says of one lease. `result` and `error` are JSON as it was sent, or None."""

    id: int
    lease_token: str
    succeeded: bool
    result: str | None = None
    error: str | None = None
    retryable: bool = True
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    id: int
    lease_token: str


class Store:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def claim(
        self, worker_id: str, limit: int, lease_seconds: int, queues: Sequence[str]
    ) -> list[ClaimedRow]:
        rows = self._pool.rows(_CLAIM, (worker_id, limit, lease_seconds, "{" + ",".join(queues) + "}"))
        return [ClaimedRow(*row) for row in rows]

    def complete(self, worker_id: str, reports: Sequence[Report]) -> list[str]:
        """One outcome each: succeeded, retrying, failed, duplicate, stale or unknown."""
        params = (
            worker_id,
            _array(str(report.id) for report in reports),
            _array(report.lease_token for report in reports),
            _array("t" if report.succeeded else "f" for report in reports),
            SEPARATOR.join([NONE if report.result is None else report.result for report in reports]),
            SEPARATOR.join([NONE if report.error is None else report.error for report in reports]),
            _array("t" if report.retryable else "f" for report in reports),
            _array(
                "NULL" if report.retry_after_seconds is None else repr(report.retry_after_seconds)
                for report in reports
            ),
        )
        outcomes: list[str] = self._pool.value(_COMPLETE, params)
        return outcomes

    def heartbeat(self, lease_seconds: int, leases: Sequence[Lease]) -> list[str]:
        """One outcome each: extended, stale, cancelled or unknown."""
        sql = "SELECT rvq.heartbeat_sub_tasks(%s, %s::bigint[], %s::uuid[])"
        outcomes: list[str] = self._pool.value(sql, (lease_seconds, *_lease_arrays(leases)))
        return outcomes

    def release(self, leases: Sequence[Lease]) -> list[str]:
        """One outcome each: released, stale or unknown."""
        sql = "SELECT rvq.release_sub_tasks(%s::bigint[], %s::uuid[])"
        outcomes: list[str] = self._pool.value(sql, _lease_arrays(leases))
        return outcomes


def _lease_arrays(leases: Sequence[Lease]) -> tuple[str, str]:
    return _array(str(lease.id) for lease in leases), _array(lease.lease_token for lease in leases)


def _array(values: Iterable[str]) -> str:
    """PostgreSQL's array literal of words that need no quoting."""
    return "{" + ",".join(values) + "}"
