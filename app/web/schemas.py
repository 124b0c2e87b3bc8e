"""What answers look like, for OpenAPI and for tests. Answers themselves are put together as text.

`Any` stands for JSON that is handed on byte for byte.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

TaskStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
SubTaskStatus = Literal["scheduled", "queued", "claimed", "succeeded", "failed", "cancelled"]
DeliveryStatus = Literal["pending", "delivered", "dead"]
EventType = Literal["task.succeeded", "task.failed", "task.cancelled"]


class Shape(Struct, forbid_unknown_fields=True):
    """An object with exactly these members."""


class SubTaskCounts(Shape):
    scheduled: int
    queued: int
    claimed: int
    succeeded: int
    failed: int
    cancelled: int


class Counts(SubTaskCounts, kw_only=True):
    total: int


class Completion(Shape):
    policy: Literal["all", "fail_fast", "at_least"]
    count: int | UnsetType = UNSET
    deadline_seconds: float | UnsetType = UNSET


class Task(Shape):
    id: str
    status: TaskStatus
    queue: str
    metadata: dict[str, Any] | None
    webhook_url: str | None
    completion: Completion
    created_at: datetime
    finished_at: datetime | None
    counts: Counts


class TaskPage(Shape):
    items: list[Task]
    next_cursor: str | None


class SubTask(Shape):
    id: str
    task_id: str
    index: int
    status: SubTaskStatus
    attempt: int
    max_attempts: int
    payload: Any
    result: Any
    error: Any
    queued_at: datetime
    finished_at: datetime | None
    worker_id: str | None


class SubTaskPage(Shape):
    items: list[SubTask]
    next_cursor: str | None


class EventData(Shape):
    task_id: str
    status: Literal["succeeded", "failed", "cancelled"]
    counts: Counts
    metadata: dict[str, Any] | None
    created_at: datetime
    finished_at: datetime


class Event(Shape):
    id: str
    type: EventType
    timestamp: datetime
    data: EventData


class EventPage(Shape):
    items: list[Event]
    next_cursor: str | None


class Verdict(Shape):
    valid: bool
    reason: str
    detail: str
    scheme: Literal["v1", "v1a"] | None
    key: int | None


class WebhookKey(Shape):
    scheme: Literal["v1a"]
    public_key: str


class WebhookKeys(Shape):
    keys: list[WebhookKey]


class TaskTotals(Shape):
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


class DeliveryTotals(Shape):
    pending: int
    delivered: int
    dead: int


class Stats(Shape):
    tasks: TaskTotals
    sub_tasks: SubTaskCounts
    queues: dict[str, SubTaskCounts]
    oldest_queued_seconds: float | None
    deliveries: DeliveryTotals


class Health(Shape):
    status: Literal["ok", "ready"]


class FieldFault(Shape):
    pointer: str
    detail: str


class ProblemDocument(Shape):
    """RFC 9457; `code` says which problem it is, `errors` (with 422) which field is at fault."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: list[FieldFault] | UnsetType = UNSET
