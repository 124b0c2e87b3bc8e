"""The worker API's calls to the database: the only module of this audience that names SQL functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.db import Pool
from app.db.coalescing import Coalescer, Future
from app.web import metrics
from app.web.schemas import moment
from app.worker.schemas import ClaimedSubTask

# In joined results and errors, the one separates and the other stands for none; no JSON has these bytes.
SEPARATOR, NONE = "\x1e", "\x1f"

# The first call on a connection plans every statement in the function. No queue can have this name.
WARM_UP = (
    "SELECT * FROM rvq.claim_sub_tasks('{-}', '{1}', 1, '{-}')",
    "SELECT rvq.complete_sub_tasks('{-}', '{0}', '{00000000-0000-0000-0000-000000000000}', '{f}',"
    " '{null}', '{null}', '{f}', '{null}')",
    "SELECT rvq.heartbeat_sub_tasks(1, '{}', '{}')",
)
_CLAIMS, _COMPLETES = metrics.BatchCounter("claim"), metrics.BatchCounter("complete")
_CLAIM = "SELECT * FROM rvq.claim_sub_tasks(%s::text[], %s::integer[], %s, %s::text[])"
_COMPLETE = (
    "SELECT rvq.complete_sub_tasks(%s::text[], %s::bigint[], %s::uuid[], %s::boolean[],"
    " string_to_array(%s, E'\\x1e', E'\\x1f'), string_to_array(%s, E'\\x1e', E'\\x1f'),"
    " %s::boolean[], %s::float8[])"
)


class Claim(NamedTuple):
    worker_id: str
    limit: int
    lease_seconds: int
    queues: tuple[str, ...]


class Report(NamedTuple):
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
    def __init__(self, pool: Pool, coalescer: Coalescer) -> None:
        self._pool = pool
        self._coalescer = coalescer

    def claim(self, claim: Claim) -> Future[list[ClaimedSubTask]]:
        key = claim.lease_seconds, claim.queues
        return self._coalescer.submit(self._claim, claim, key=key, weight=claim.limit)

    def complete(self, worker_id: str, reports: Sequence[Report]) -> Future[list[str]]:
        """Store reports; give one outcome each: succeeded, retrying, failed, duplicate, stale or unknown."""
        weight = max(len(reports), sum(len(report.result or "") for report in reports) // 1024)
        return self._coalescer.submit(self._complete, (worker_id, reports), weight=weight)

    def _claim(self, claims: Sequence[Claim]) -> list[list[ClaimedSubTask]]:
        """Make one call for claims that differ in worker and limit only; return the sub_tasks of each."""
        _CLAIMS.batches.inc()
        _CLAIMS.calls.inc(len(claims))
        workers, limits = [claim.worker_id for claim in claims], [claim.limit for claim in claims]
        claimed: list[list[ClaimedSubTask]] = [[] for _ in claims]
        params = (workers, limits, claims[0].lease_seconds, list(claims[0].queues))
        # A lease needs no standby: if that takes over without it, the sub_task is queued there.
        rows = self._pool.change_rows(_CLAIM, params, may_be_local=True)
        # All leases of one statement end at the same moment.
        expires_at = moment(rows[0][-1]) if rows else ""
        for row in rows:
            claimed[row[0] - 1].append(ClaimedSubTask.from_row(row, expires_at))
        return claimed

    def _complete(self, of_workers: Sequence[tuple[str, Sequence[Report]]]) -> list[list[str]]:
        _COMPLETES.batches.inc()
        _COMPLETES.calls.inc(len(of_workers))
        reports = [report for _, of_worker in of_workers for report in of_worker]
        params = (
            [worker_id for worker_id, of_worker in of_workers for _ in of_worker],
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
        outcomes = iter(self._pool.change(_COMPLETE, params))
        return [list(itertools.islice(outcomes, len(of_worker))) for _, of_worker in of_workers]

    def heartbeat(self, lease_seconds: int, leases: Sequence[Lease]) -> list[str]:
        """Extend leases; return one outcome each: extended, stale, cancelled or unknown."""
        sql = "SELECT rvq.heartbeat_sub_tasks(%s, %s::bigint[], %s::uuid[])"
        params = (lease_seconds, *_lease_arrays(leases))
        outcomes: list[str] = self._pool.change(sql, params, may_be_local=True)
        return outcomes

    def release(self, leases: Sequence[Lease]) -> list[str]:
        """Give leases back; return one outcome each: released, stale or unknown."""
        sql = "SELECT rvq.release_sub_tasks(%s::bigint[], %s::uuid[])"
        outcomes: list[str] = self._pool.change(sql, _lease_arrays(leases), may_be_local=True)
        return outcomes


def _lease_arrays(leases: Sequence[Lease]) -> tuple[str, str]:
    return _array(str(lease.id) for lease in leases), _array(lease.lease_token for lease in leases)


def _array(values: Iterable[str]) -> str:
    """Return PostgreSQL's array literal of words that need no quoting."""
    return "{" + ",".join(values) + "}"
