"""The JSON that only the admin API responds with."""

from __future__ import annotations

from app import ids
from app.db import Row
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
    def from_row(cls, row: Row) -> Delivery:
        """Return the delivery of a row of rvq.list_deliveries."""
        number, status, host, url, attempts, next_attempt, outcome, status_code, last_attempt = row
        return cls(
            ids.delivery_id(number),
            ids.event_id(number),
            ids.task_id(ids.task_of(number)),
            status,
            host,
            url,
            attempts or 0,
            moment_or_null(next_attempt),
            outcome,
            status_code,
            moment_or_null(last_attempt),
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
