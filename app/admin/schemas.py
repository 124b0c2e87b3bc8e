"""What the admin API answers, for OpenAPI and for tests."""

from __future__ import annotations

from datetime import datetime

from app.web.schemas import DeliveryStatus, Shape
from app.webhooks.outcomes import Outcome


class Queue(Shape):
    queue: str
    paused: bool
    scheduled: int
    queued: int
    claimed: int


class Delivery(Shape):
    id: str
    event_id: str
    task_id: str
    status: DeliveryStatus
    host: str
    url: str
    attempts: int
    next_attempt_at: datetime | None
    last_outcome: Outcome | None
    last_status_code: int | None
    last_attempt_at: datetime | None


class AdminDeliveryPage(Shape):
    items: list[Delivery]
    next_cursor: str | None


class BulkRedelivery(Shape):
    matched: int
    redelivered: int
    dry_run: bool
    complete: bool


class AuditedCounter(Shape):
    queue: str
    counter: str
    counted: int
    truth: int


class Audit(Shape):
    drift: int
    counters: list[AuditedCounter]


class Repaired(Shape):
    repaired: int


class WasReset(Shape):
    reset: bool
