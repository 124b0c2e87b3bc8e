"""The JSON that only the partner API responds with."""

from __future__ import annotations

from typing import Literal

from app import ids
from app.db import Row
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
    def from_row(cls, row: Row) -> SubTask:
        """Return the sub_task of a row of rvq.list_sub_tasks."""
        number, status, attempt, max_attempts, payload, result, error, queued, finished, worker_id = row
        return cls(
            ids.sub_task_id(number),
            ids.task_id(ids.task_of(number)),
            ids.index_of(number),
            status,
            attempt or 0,
            max_attempts,
            raw(payload),
            raw(result),
            raw(error),
            moment(queued),
            moment_or_null(finished),
            worker_id,
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
    def from_rows(cls, rows: list[Row]) -> TaskDelivery:
        """Return the delivery of rows of rvq.list_deliveries_of_task: one an attempt, or one without any."""
        number, status, url, event_status, created, next_attempt = rows[0][:6]
        return cls(
            ids.delivery_id(number),
            ids.event_id(number),
            f"task.{event_status}",  # type: ignore[arg-type]
            status,
            url,
            moment(created),
            moment_or_null(next_attempt),
            [_attempt(row[6:]) for row in rows if row[6] is not None],
        )


def _attempt(row: Row) -> DeliveryAttempt:
    """Return an attempt. `detail` is JSON already; `answer` becomes text, whatever the receiver sent."""
    number, started, ended, outcome, status_code, detail, answer = row
    text = None if answer is None else bytes(answer).decode("utf-8", "replace")
    return DeliveryAttempt(number, moment(started), moment(ended), outcome, status_code, raw(detail), text)


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
