"""The SQL functions as short Python calls on one connection, as the stores make them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from app.db import Connection, Row
from tests.support.creating import CREATE, NewTask, create_params

NEWEST = 2**63 - 1
ERROR = '{"message":"boom"}'
URL, HOST = "https://hooks.example/rvq", "hooks.example"


class Lease(NamedTuple):
    """A claimed sub_task."""

    id: int
    queue: str
    attempt: int
    max_attempts: int
    payload: str
    token: str
    expires_at: datetime


class Report(NamedTuple):
    """What a worker says of one lease. `retry_after` in seconds."""

    id: int
    token: str
    succeeded: bool = True
    result: str | None = None
    error: str | None = None
    retryable: bool = True
    retry_after: float | None = None


class Task(NamedTuple):
    """A row of rvq.read_task."""

    id: int
    status: str
    queue: str
    metadata: str | None
    webhook_url: str | None
    policy: str
    required: int | None
    deadline_seconds: float | None
    created_at: datetime
    finished_at: datetime | None
    total: int
    scheduled: int
    queued: int
    claimed: int
    succeeded: int
    failed: int
    cancelled: int

    @property
    def counts(self) -> dict[str, int]:
        """Sub_tasks by status, without the zeros."""
        names = ("scheduled", "queued", "claimed", "succeeded", "failed", "cancelled")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class SubTask(NamedTuple):
    """A row of rvq.list_sub_tasks."""

    id: int
    status: str
    attempt: int
    max_attempts: int
    payload: str
    result: str | None
    error: str | None
    queued_at: datetime
    finished_at: datetime | None
    worker_id: str | None


class Delivery(NamedTuple):
    """A row of rvq.claim_deliveries."""

    id: int
    attempt: int
    tries: int
    url: str
    host: str
    body: str
    token: str


class Created(NamedTuple):
    """A row of rvq.create_tasks."""

    outcome: str
    task_id: int
    created_at: datetime
    scheduled: bool


def success(lease: Lease, result: str | None = '{"ok":true}') -> Report:
    return Report(lease.id, lease.token, result=result)


def failure(
    lease: Lease, *, error: str = ERROR, retryable: bool = True, retry_after: float | None = None
) -> Report:
    return Report(lease.id, lease.token, False, None, error, retryable, retry_after)


class Calls:
    """One connection's worth of calls."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []

    def value(self, sql: str, params: Sequence[object] = ()) -> Any:
        ((value,),) = self.rows(sql, params)
        return value

    # partner

    def post(
        self,
        sub_tasks: int = 1,
        *,
        payloads: Sequence[str] | None = None,
        queue: str = "default",
        max_attempts: int | Sequence[int] = 5,
        metadata: str | None = None,
        webhook: str | None = None,
        host: str = HOST,
        not_before: datetime | None = None,
        policy: str = "all",
        required: int | None = None,
        deadline: float | None = None,
        key: str | None = None,
        body_hash: bytes | None = None,
    ) -> Created:
        """`deadline` in seconds; `webhook` is a URL."""
        payloads = payloads if payloads is not None else [str(n) for n in range(sub_tasks)]
        attempts = [max_attempts] * len(payloads) if isinstance(max_attempts, int) else list(max_attempts)
        (made,) = self.post_several(
            NewTask(
                payloads,
                attempts,
                queue,
                metadata,
                webhook,
                host if webhook else None,
                not_before,
                policy,
                required,
                deadline,
                key,
                body_hash,
            )
        )
        return made

    def post_several(self, *tasks: NewTask) -> list[Created]:
        return [Created(*row) for row in self.rows(CREATE, create_params(*tasks))]

    def create(self, sub_tasks: int = 1, **options: Any) -> int:
        """The id of the new task; options as for post()."""
        return self.post(sub_tasks, **options).task_id

    def task(self, task_id: int) -> Task:
        ((*row,),) = self.rows("SELECT * FROM rvq.read_task(%s)", (task_id,))
        return Task(*row)

    def sub_tasks(
        self, task_id: int, status: str | None = None, limit: int = 10_000, after: int = 0
    ) -> list[SubTask]:
        sql = "SELECT * FROM rvq.list_sub_tasks(%s,%s,%s,%s)"
        return [SubTask(*row) for row in self.rows(sql, (task_id, status, limit, after))]

    def statuses(self, task_id: int) -> list[str]:
        return [s.status for s in self.sub_tasks(task_id)]

    def tasks(self, status: str | None = None, limit: int = 100, before: int = NEWEST) -> list[Task]:
        rows = self.rows("SELECT * FROM rvq.list_tasks(%s,%s,%s)", (status, limit, before))
        return [Task(*row) for row in rows]

    def cancel(self, task_id: int) -> str:
        return str(self.value("SELECT rvq.cancel_task(%s)", (task_id,)))

    def retry(self, task_id: int) -> str:
        return str(self.value("SELECT rvq.retry_task(%s)", (task_id,)))

    def stats(self) -> Any:
        return json.loads(self.value("SELECT rvq.stats()"))

    def events(self, task_id: int) -> list[tuple[int, str]]:
        """(run, status) of each end of the task."""
        sql = "SELECT id - %s, status FROM rvq.events WHERE id >= %s AND id < %s ORDER BY id"
        return [(row[0], row[1]) for row in self.rows(sql, (task_id, task_id, task_id + 16384))]

    def event_body(self, task_id: int, run: int = 0) -> Any:
        return json.loads(self.value("SELECT body FROM rvq.events WHERE id = %s", (task_id + run,)))

    # worker

    def claim(
        self, limit: int = 1, *, worker: str = "w", lease: int = 60, queues: Sequence[str] = ("default",)
    ) -> list[Lease]:
        rows = self.rows(
            "SELECT * FROM rvq.claim_sub_tasks(%s,%s,%s,%s)", ([worker], [limit], lease, list(queues))
        )
        return [Lease(*row) for _, *row in rows]

    def claim_one(self, **options: Any) -> Lease:
        (lease,) = self.claim(1, **options)
        return lease

    def complete(self, *reports: Report, worker: str = "w") -> list[str]:
        columns = [list(column) for column in zip(*reports, strict=True)]
        ids, tokens, succeeded, results, errors, retryable, retry_after = columns
        outcomes: list[str] = self.value(
            "SELECT rvq.complete_sub_tasks(array_fill(%s::text,ARRAY[%s]),%s::bigint[],%s::uuid[],"
            "%s::boolean[],%s::text[],%s::text[],%s::boolean[],%s::float8[])",
            (worker, len(ids), ids, tokens, succeeded, results, errors, retryable, retry_after),
        )
        return outcomes

    def succeed(self, *leases: Lease) -> list[str]:
        return self.complete(*map(success, leases))

    def fail(self, *leases: Lease, **options: Any) -> list[str]:
        return self.complete(*(failure(lease, **options) for lease in leases))

    def fail_for_good(self, *leases: Lease) -> list[str]:
        return self.fail(*leases, retryable=False)

    def heartbeat(self, *leases: Lease, seconds: int = 60) -> list[str]:
        outcomes: list[str] = self.value(
            "SELECT rvq.heartbeat_sub_tasks(%s,%s::bigint[],%s::uuid[])", (seconds, *_named(leases))
        )
        return outcomes

    def release(self, *leases: Lease) -> list[str]:
        outcomes: list[str] = self.value(
            "SELECT rvq.release_sub_tasks(%s::bigint[],%s::uuid[])", _named(leases)
        )
        return outcomes

    # maintenance, one step each

    def expire(self, limit: int = 1000) -> int:
        return int(self.value("SELECT expired FROM rvq.expire_leases(%s)", (limit,)))

    def promote(self, limit: int = 1000) -> int:
        return int(self.value("SELECT rvq.promote_due(%s)", (limit,)))

    def end_overdue(self, limit: int = 1000) -> int:
        return int(self.value("SELECT ended FROM rvq.end_overdue_tasks(%s)", (limit,)))

    def fold(self) -> int:
        return int(self.value("SELECT rvq.fold_counters()"))

    def raise_floors(self) -> int:
        return int(self.value("SELECT raised FROM rvq.raise_claim_floors('', 1000)"))

    def sweep(self, after: int = 0, limit: int = 1000) -> tuple[int | None, int]:
        ((last, stranded),) = self.rows("SELECT * FROM rvq.sweep_stranded_tasks(%s,%s)", (after, limit))
        return last, stranded

    # dispatcher

    def claim_deliveries(self, limit: int = 100, lease: float = 30, host_limit: int = 100) -> list[Delivery]:
        columns = "id, attempt, tries, url, host, body, lease_token"
        sql = f"SELECT {columns} FROM rvq.claim_deliveries(%s,%s,%s)"
        rows = self.rows(sql, (limit, lease, host_limit))
        return [Delivery(*row) for row in rows]

    def settle(
        self,
        *deliveries: Delivery,
        decision: str = "delivered",
        outcome: str = "delivered",
        delay: float | None = None,
        code: int | None = 200,
        answer: bytes | None = None,
    ) -> list[int]:
        """Settle all with the same decision; `delay` in seconds."""
        n, held = len(deliveries), ([d.id for d in deliveries], [d.token for d in deliveries])
        settled: list[int] = self.value(
            "SELECT rvq.settle_deliveries(%s::bigint[],%s::uuid[],%s,%s::float8[],%s::float8[],%s,%s::int[],"
            "%s::text[],%s::bytea[])",
            (
                *held,
                [decision] * n,
                [delay] * n,
                [0.25] * n,
                [outcome] * n,
                [code] * n,
                [None] * n,
                [answer] * n,
            ),
        )
        return settled

    def put_off(self, *deliveries: Delivery, delay: float = 5, outcome: str = "timeout") -> list[int]:
        """Settle as failed for now."""
        return self.settle(*deliveries, decision="retry", outcome=outcome, delay=delay, code=None)

    def give_up(self, *deliveries: Delivery, outcome: str = "http_error") -> list[int]:
        return self.settle(*deliveries, decision="dead", outcome=outcome, code=500)

    def release_deliveries(self, *deliveries: Delivery) -> int:
        sql = "SELECT rvq.release_deliveries(%s::bigint[],%s::uuid[])"
        return int(self.value(sql, ([d.id for d in deliveries], [d.token for d in deliveries])))

    def expire_deliveries(self, limit: int = 1000) -> int:
        return int(self.value("SELECT rvq.expire_delivery_leases(%s)", (limit,)))

    def redeliver(self, *ids: int) -> list[str]:
        outcomes: list[str] = self.value("SELECT rvq.redeliver(%s::bigint[])", (list(ids),))
        return outcomes

    def ledger(self, delivery_id: int) -> list[tuple[int, str, str]]:
        """(attempt, outcome, status of the delivery then) of every attempt recorded."""
        sql = "SELECT attempt, outcome, status FROM rvq.delivery_attempts WHERE id = %s ORDER BY attempt"
        return [(row[0], row[1], row[2]) for row in self.rows(sql, (delivery_id,))]


def other_token() -> str:
    """A lease token nobody was given."""
    return str(uuid.uuid4())


def _named(leases: Sequence[Lease]) -> tuple[list[int], list[str]]:
    return [lease.id for lease in leases], [lease.token for lease in leases]
