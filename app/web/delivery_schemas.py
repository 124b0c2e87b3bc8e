"""The JSON of deliveries and their attempts, as documented and as tests check it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from app.web.schemas import DeliveryStatus, EventType, Shape
from app.webhooks.outcomes import Outcome


class AttemptPhases(Struct):
    """Milliseconds. A phase that was not reached, or not needed on a kept connection, is left out."""

    total: float
    dns: float | UnsetType = UNSET
    connect: float | UnsetType = UNSET
    tls: float | UnsetType = UNSET
    send: float | UnsetType = UNSET
    first_byte: float | UnsetType = UNSET


class AttemptDetail(Struct):
    """What explains an attempt; what does not apply is left out.

    `address` was connected to, of `addresses_refused` each says why it may not be. `reused`: over a kept
    connection. `answer_cut`: why `answer` is not all of it. `reason`: why the delivery is dead, or
    `dispatcher_lost`: the process that made the attempt is gone, and whether it was sent is not known.
    """

    summary: str | UnsetType = UNSET
    phases_ms: AttemptPhases | UnsetType = UNSET
    address: str | UnsetType = UNSET
    addresses_refused: list[str] | UnsetType = UNSET
    tls_version: str | UnsetType = UNSET
    reused: bool | UnsetType = UNSET
    retry_after_seconds: float | UnsetType = UNSET
    answer_cut: Literal["size", "deadline", "peer", "framing"] | UnsetType = UNSET
    reason: Literal["gone", "not_allowed", "attempts_used_up", "dispatcher_lost"] | UnsetType = UNSET


class DeliveryAttempt(Shape):
    """One POST. `answer`: the first 8 KiB of what came back, as text; what is not UTF-8 is replaced.

    `outcome`: `delivered` (2xx), `gone` (410), `http_error` (any other status, redirects too), `timeout`
    (before it was sent whole), `unknown` (sent, but no whole answer: it may have been acted upon),
    `dns_error`, `refused` (nobody listens), `connect_error`, `tls_error`, `protocol_error` (the answer is not
    HTTP/1), `blocked` (the name leads to an address that may not be dialled), `not_allowed` (the URL is not
    on the list), or `internal_error` (ours).
    """

    attempt: int
    started_at: datetime
    ended_at: datetime
    outcome: Outcome
    status_code: int | None
    detail: AttemptDetail | None
    answer: str | None


class TaskDelivery(Shape):
    id: str
    event_id: str
    type: EventType
    status: DeliveryStatus
    url: str
    created_at: datetime
    next_attempt_at: datetime | None
    attempts: list[DeliveryAttempt]


class DeliveryPage(Shape):
    items: list[TaskDelivery]
    next_cursor: str | None


class Redelivered(Shape):
    redelivered: int
