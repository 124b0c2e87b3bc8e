"""The partner API's calls to the database: the only module of this audience that names SQL functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from psycopg2.errors import CheckViolation

from app.db import COMMIT_MARK, Pool
from app.db.coalescing import Coalescer, Future
from app.ids import HIGHEST
from app.partner.schemas import SubTask, TaskDelivery
from app.web import metrics
from app.web.schemas import Policy, Task

# No JSON has this byte: it stands between payloads, which is cheaper to parse than an array.
SEPARATOR = b"\x1e"

# A page of a listing ends once it has so many bytes of payloads, results and errors (up to 1 MiB each), or of
# receivers' answers (up to 8 KiB each, which JSON may write with six bytes for one).
SUB_TASK_BYTES = 16 * 1024 * 1024
ANSWER_BYTES = 2 * 1024 * 1024

_CREATES = metrics.BatchCounter("create")
_CREATE = (
    "SELECT * FROM rvq.create_tasks(%s::text[], %s::integer[], string_to_array(%s, E'\\x1e'), %s::integer[],"
    " %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::text[], %s::integer[], %s::float8[],"
    " %s::text[], %s::bytea[])"
)
# This makes a task and undoes it: the first call on a connection plans every statement in the function.
WARM_UP = (
    "DO $$ BEGIN"
    " PERFORM rvq.create_tasks('{-}', '{1}', '{1}', '{1}', '{null}', '{null}', '{null}', '{null}', '{all}',"
    " '{null}', '{null}', '{null}', '{null}');"
    " RAISE division_by_zero;"
    " EXCEPTION WHEN division_by_zero OR check_violation OR SQLSTATE 'RQ001' THEN NULL; END $$",
    "SELECT * FROM rvq.read_task(0)",
)


@dataclass(frozen=True, slots=True)
class NewTask:
    """A checked task. `payloads` are joined by SEPARATOR, `max_attempts` has one number for each."""

    queue: str
    payloads: str
    max_attempts: Sequence[int]
    metadata: str | None
    webhook_url: str | None
    webhook_host: str | None
    not_before: datetime | None
    policy: Policy
    required: int | None
    deadline_seconds: float | None
    idempotency_key: str | None
    body_hash: bytes | None


class Created(NamedTuple):
    """What became of a NewTask.

    `outcome` is created, replayed, conflict or refused. If `scheduled`, the sub_tasks wait for `not_before`.
    """

    outcome: str
    task_id: int
    created_at: datetime
    scheduled: bool


class FeedPlace(NamedTuple):
    """A place in the feed of events; `run` is the server's when it was handed out, 0 in cursors of 0.1.0."""

    run: int
    xid: int
    event: int


START = FeedPlace(0, 0, 0)


class Store:
    def __init__(self, pool: Pool, coalescer: Coalescer) -> None:
        self._pool = pool
        self._coalescer = coalescer

    def create_task(self, new: NewTask) -> Future[Created]:
        weight = max(len(new.max_attempts), len(new.payloads) // 1024)
        return self._coalescer.submit(self._create_tasks, new, weight=weight)

    def _create_tasks(self, tasks: Sequence[NewTask]) -> list[Created]:
        _CREATES.batches.inc()
        _CREATES.calls.inc(len(tasks))
        params = _create_params(tasks)
        try:
            rows = self._pool.change_rows(_CREATE, params)
        except CheckViolation:
            # There is no partition for today: maintenance has not run for days.
            self._pool.change("SELECT rvq.create_partitions(7)")
            rows = self._pool.change_rows(_CREATE, params)
        return [Created(*row) for row in rows]

    def refusal(self) -> str:
        """Return why create refuses."""
        return str(self._pool.value("SELECT refusal FROM rvq.read_admission()") or "it was so a moment ago")

    def read_task(self, task_id: int) -> Task | None:
        row = self._pool.row("SELECT * FROM rvq.read_task(%s)", (task_id,))
        return Task.from_row(row) if row else None

    def read_replayed_task(self, task_id: int) -> Task | None:
        """Read a task that another call has created, once it is as durable as that call's response says.

        The commit of what is written here comes after that one's, so it waits for the same standby.
        """
        rows = self._pool.change_rows(
            f"SELECT t.* FROM {COMMIT_MARK} CROSS JOIN rvq.read_task(%s) AS t", (task_id,)
        )
        return Task.from_row(rows[0]) if rows else None

    def list_tasks(self, status: str | None, limit: int, before: int | None) -> list[Task]:
        """Return tasks with an id below `before`, newest first."""
        params = (status, limit, HIGHEST if before is None else before)
        return list(map(Task.from_row, self._pool.rows("SELECT * FROM rvq.list_tasks(%s, %s, %s)", params)))

    def list_sub_tasks(self, task_id: int, status: str | None, limit: int, after: int) -> list[SubTask]:
        """Return sub_tasks with an id above `after`, in the order given, until there are SUB_TASK_BYTES."""
        params = (task_id, status, limit, after, SUB_TASK_BYTES)
        rows = self._pool.rows("SELECT * FROM rvq.list_sub_tasks(%s, %s, %s, %s, %s)", params)
        return list(map(SubTask.from_row, rows))

    def cancel_task(self, task_id: int) -> str:
        """Cancel a task; return cancelled, finished or unknown."""
        return str(self._pool.change("SELECT rvq.cancel_task(%s)", (task_id,)))

    def list_deliveries(
        self, task_id: int, limit: int, after: tuple[int, int]
    ) -> tuple[list[TaskDelivery], tuple[int, int] | None]:
        """Return deliveries with the attempts after (delivery, attempt), and after which to go on, if at all.

        There are no more attempts once there are ANSWER_BYTES, and at most `limit`.
        """
        params = (task_id, limit, *after, ANSWER_BYTES)
        rows = self._pool.rows("SELECT * FROM rvq.list_deliveries_of_task(%s, %s, %s, %s, %s)", params)
        is_last = len(rows) < limit and sum(len(row[-1] or b"") for row in rows) < ANSWER_BYTES
        found = [TaskDelivery.from_rows(list(group)) for _, group in groupby(rows, itemgetter(0))]
        return found, None if is_last else (rows[-1][0], rows[-1][6] or 0)

    def redeliver_task(self, task_id: int) -> str:
        """Send a task's last event once more.

        Return redelivered, in_flight, too_often, nothing_to_send or unknown.
        """
        return str(self._pool.change("SELECT rvq.redeliver_task(%s)", (task_id,)))

    def list_events(self, after: FeedPlace, limit: int) -> list[tuple[FeedPlace, str]] | None:
        """Return place and body of the events after a place in the feed, in its order.

        None: the place is of a history that the database no longer has.
        """
        rows = self._pool.rows(
            "SELECT run, xid::text, id, body FROM rvq.read_feed(%s, %s, %s, %s)", (*after, limit)
        )
        if rows and rows[0][2] is None:
            return None
        return [(FeedPlace(run, int(xid), number), body) for run, xid, number, body in rows]

    def read_event(self, event_id: int) -> str | None:
        """Return the body that was signed and sent, or None if there is no such event."""
        row = self._pool.row("SELECT rvq.read_event(%s)", (event_id,))
        return row[0] if row else None

    def stats(self) -> str:
        """Return the statistics as a JSON document."""
        return str(self._pool.value("SELECT rvq.stats()"))


def _create_params(tasks: Sequence[NewTask]) -> tuple[object, ...]:
    return (
        [new.queue for new in tasks],
        [len(new.max_attempts) for new in tasks],
        SEPARATOR.decode().join([new.payloads for new in tasks]),
        "{" + ",".join(str(number) for new in tasks for number in new.max_attempts) + "}",
        [new.metadata for new in tasks],
        [new.webhook_url for new in tasks],
        [new.webhook_host for new in tasks],
        [new.not_before for new in tasks],
        [new.policy for new in tasks],
        [new.required for new in tasks],
        [new.deadline_seconds for new in tasks],
        [new.idempotency_key for new in tasks],
        [new.body_hash for new in tasks],
    )
