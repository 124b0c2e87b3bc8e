"""The JSON that the partner API alone answers with."""

from __future__ import annotations

from typing import Literal

from app import ids
from app.partner.store import DeliveryRow, SubTaskRow
from app.web.schemas import (
    Counts,
    DeliveryAttempt,
    DeliveryStatus,
    EventType,
    Json,
    JsonObject,
    Moment,
    Schema,
    SubTaskCounts,
    SubTaskStatus,
    Task,
    moment,
    moment_or_null,
    raw,
)


class TaskPage(Schema):
    items: list[Task]
    next_cursor: str | None


class SubTask(Schema):
    id: str
    task_id: str
    index: int
    status: SubTaskStatus
    attempt: int
    max_attempts: int
    payload: Json
    result: Json
    error: Json
    queued_at: Moment
    finished_at: Moment | None
    worker_id: str | None

    @classmethod
    def of(cls, row: SubTaskRow) -> SubTask:
        return cls(
            id=ids.sub_task_id(row.id),
            task_id=ids.task_id(ids.task_of(row.id)),
            index=ids.index_of(row.id),
            status=row.status,
            attempt=row.attempt or 0,
            max_attempts=row.max_attempts,
            payload=raw(row.payload),
            result=raw(row.result),
            error=raw(row.error),
            queued_at=moment(row.queued_at),
            finished_at=moment_or_null(row.finished_at),
            worker_id=row.worker_id,
        )


class SubTaskPage(Schema):
    items: list[SubTask]
    next_cursor: str | None


class TaskDelivery(Schema):
    id: str
    event_id: str
    type: EventType
    status: DeliveryStatus
    url: str
    created_at: Moment
    next_attempt_at: Moment | None
    attempts: list[DeliveryAttempt]

    @classmethod
    def of(cls, rows: list[DeliveryRow]) -> TaskDelivery:
        """Return the delivery whose attempts these rows are, one a row; one row alone may have none."""
        first = rows[0]
        return cls(
            id=ids.delivery_id(first.delivery_id),
            event_id=ids.event_id(first.delivery_id),
            type=f"task.{first.event_status}",  # type: ignore[arg-type]
            status=first.status,
            url=first.url,
            created_at=moment(first.created_at),
            next_attempt_at=moment_or_null(first.next_attempt_at),
            attempts=[_attempt(row) for row in rows if row.attempt is not None],
        )


def _attempt(row: DeliveryRow) -> DeliveryAttempt:
    """`detail` is stored as JSON; `answer` is bytes of the receiver's, shown as text whatever they are."""
    return DeliveryAttempt(
        attempt=row.attempt or 0,
        started_at=moment(row.started_at),
        ended_at=moment(row.ended_at),
        outcome=row.outcome,
        status_code=row.status_code,
        detail=raw(row.detail),
        answer=None if row.answer is None else bytes(row.answer).decode("utf-8", "replace"),
    )


class DeliveryPage(Schema):
    items: list[TaskDelivery]
    next_cursor: str | None


class EventData(Schema):
    task_id: str
    status: Literal["succeeded", "failed", "cancelled"]
    counts: Counts
    metadata: JsonObject
    created_at: Moment
    finished_at: Moment


class Event(Schema):
    id: str
    type: EventType
    timestamp: Moment
    data: EventData


class EventPage(Schema):
    items: list[Event]
    next_cursor: str | None


class Verdict(Schema):
    valid: bool
    reason: str
    detail: str
    scheme: Literal["v1", "v1a"] | None
    key: int | None


class WebhookKey(Schema):
    scheme: Literal["v1a"]
    public_key: str


class WebhookKeys(Schema):
    keys: list[WebhookKey]


class TaskTotals(Schema):
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


class DeliveryTotals(Schema):
    pending: int
    delivered: int
    dead: int


class Stats(Schema):
    tasks: TaskTotals
    sub_tasks: SubTaskCounts
    queues: dict[str, SubTaskCounts]
    oldest_queued_seconds: float | None
    deliveries: DeliveryTotals
