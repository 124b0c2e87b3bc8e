"""The admin API's calls to the database: the only module of this audience that names SQL functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from app.admin.schemas import AuditedCounter, Delivery, Queue
from app.db import Pool
from app.ids import HIGHEST
from app.web.schemas import Task

# What reads all facts may take longer than other calls, but not as long as a transaction may be open before
# create refuses. A reset waits for locks no longer than other calls do, since all writers wait behind it.
AUDIT_MS, RESET_MS = 300_000, 60_000


class Store:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def read_task(self, task_id: int) -> Task | None:
        row = self._pool.row("SELECT * FROM rvq.read_task(%s)", (task_id,))
        return Task.from_row(row) if row else None

    def cancel_task(self, task_id: int) -> str:
        """Cancel a task; return cancelled, finished or unknown."""
        return str(self._pool.change("SELECT rvq.cancel_task(%s)", (task_id,)))

    def retry_task(self, task_id: int) -> str:
        """Run what failed of a task again; return retried, unfinished, nothing_failed or unknown."""
        return str(self._pool.change("SELECT rvq.retry_task(%s)", (task_id,)))

    def read_queue(self, queue: str) -> Queue:
        return Queue(queue, *self._pool.rows("SELECT * FROM rvq.read_queue(%s)", (queue,))[0])

    def set_queue_paused(self, queue: str, paused: bool) -> None:
        self._pool.change("SELECT rvq.set_queue_paused(%s, %s)", (queue, paused))

    def list_deliveries(
        self,
        status: str | None,
        host: str | None,
        since: datetime | None,
        limit: int,
        before: int | None,
    ) -> list[Delivery]:
        """Return deliveries with an id below `before`, newest first."""
        params = (status, host, since, limit, HIGHEST if before is None else before)
        rows = self._pool.rows("SELECT * FROM rvq.list_deliveries(%s, %s, %s, %s, %s)", params)
        return list(map(Delivery.from_row, rows))

    def redeliver(self, delivery_ids: Sequence[int]) -> list[str]:
        """Send deliveries again; return one outcome each: redelivered, in_flight, too_often or unknown."""
        literal = "{" + ",".join(map(str, delivery_ids)) + "}"
        outcomes: list[str] = self._pool.change("SELECT rvq.redeliver(%s::bigint[])", (literal,))
        return outcomes

    def audit(self) -> list[AuditedCounter]:
        sql = "SELECT queue, counter, counted, truth FROM rvq.audit()"
        return [AuditedCounter(*row) for row in self._pool.rows(sql, limit_ms=AUDIT_MS)]

    def repair_counters(self) -> int:
        """Repair the counters; return how many had drifted."""
        return int(self._pool.change("SELECT rvq.repair_counters()", limit_ms=AUDIT_MS))

    def reset(self) -> None:
        self._pool.change("SELECT rvq.reset()", limit_ms=RESET_MS)
