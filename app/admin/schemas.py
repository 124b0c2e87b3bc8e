"""The JSON that the admin API alone answers with."""

from __future__ import annotations

from app import ids
from app.admin.store import DeliveryRow
from app.web.schemas import DeliveryStatus, Moment, Schema, moment_or_null
from app.webhooks.outcomes import Outcome


class Queue(Schema):
    queue: str
    paused: bool
    scheduled: int
    queued: int
    claimed: int


class Delivery(Schema):
    id: str
    event_id: str
    task_id: str
    status: DeliveryStatus
    host: str
    url: str
    attempts: int
    next_attempt_at: Moment | None
    last_outcome: Outcome | None
    last_status_code: int | None
    last_attempt_at: Moment | None

    @classmethod
    def of(cls, row: DeliveryRow) -> Delivery:
        return cls(
            id=ids.delivery_id(row.id),
            event_id=ids.event_id(row.id),
            task_id=ids.task_id(ids.task_of(row.id)),
            status=row.status,
            host=row.host,
            url=row.url,
            attempts=row.attempts or 0,
            next_attempt_at=moment_or_null(row.next_attempt_at),
            last_outcome=row.last_outcome,
            last_status_code=row.last_status_code,
            last_attempt_at=moment_or_null(row.last_attempt_at),
        )


class AdminDeliveryPage(Schema):
    items: list[Delivery]
    next_cursor: str | None


class BulkRedelivery(Schema):
    matched: int
    redelivered: int
    dry_run: bool
    complete: bool


class AuditedCounter(Schema):
    queue: str
    counter: str
    counted: int
    truth: int


class Audit(Schema):
    drift: int
    counters: list[AuditedCounter]


class Repaired(Schema):
    repaired: int


class WasReset(Schema):
    reset: bool
