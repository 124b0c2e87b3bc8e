"""The JSON schemas of more than one audience: responses are encoded from them, and OpenAPI shows them.

A schema's members go out in their order. Times are texts made by `moment`; JSON that is handed on byte for
byte is typed `Json` or `JsonObject`, and is a `msgspec.Raw` when it goes out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from app import ids
from app.db import Row
from app.webhooks.outcomes import Outcome

TaskStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
SubTaskStatus = Literal["scheduled", "queued", "claimed", "succeeded", "failed", "cancelled"]
DeliveryStatus = Literal["pending", "delivered", "dead"]
Policy = Literal["all", "fail_fast", "at_least"]
EventType = Literal["task.succeeded", "task.failed", "task.cancelled"]
TASK_STATUSES: tuple[str, ...] = get_args(TaskStatus)
SUB_TASK_STATUSES: tuple[str, ...] = get_args(SubTaskStatus)
DELIVERY_STATUSES: tuple[str, ...] = get_args(DeliveryStatus)

# RFC 3339 in UTC with microseconds, such as `2026-01-31T12:00:00.000001Z`.
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Json = Any
JsonObject = Annotated[Any, Meta(extra_json_schema={"type": ["object", "null"]})]
_NULL = Raw("null")


def moment(time: datetime) -> str:
    """Return a time as a `Moment`; the fraction always has six digits."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_or_null(time: datetime | None) -> str | None:
    return None if time is None else moment(time)


def raw(text: str | None) -> Any:
    """Return stored JSON, to be sent byte for byte; null for None."""
    return _NULL if text is None else Raw(text)


def whole(value: float) -> float:
    """Return 60.0 as 60, so that a whole number comes back as one."""
    return int(value) if value.is_integer() else value


class Schema(Struct, forbid_unknown_fields=True):
    """An object with exactly these members."""


class SubTaskCounts(Schema):
    scheduled: int
    queued: int
    claimed: int
    succeeded: int
    failed: int
    cancelled: int


class Counts(Schema):
    total: int
    scheduled: int
    queued: int
    claimed: int
    succeeded: int
    failed: int
    cancelled: int


class Completion(Schema):
    policy: Policy
    count: int | UnsetType = UNSET
    deadline_seconds: float | UnsetType = UNSET


class Task(Schema):
    id: str
    status: TaskStatus
    queue: str
    metadata: JsonObject
    webhook_url: str | None
    completion: Completion
    created_at: Moment
    finished_at: Moment | None
    counts: Counts

    @classmethod
    def from_row(cls, row: Row) -> Task:
        """Return the task of a row of rvq.task_view."""
        (
            number,
            status,
            queue,
            metadata,
            webhook_url,
            policy,
            required,
            deadline,
            created,
            finished,
            *counts,
        ) = row
        return cls(
            ids.task_id(number),
            status,
            queue,
            raw(metadata),
            webhook_url,
            Completion(policy, required or UNSET, UNSET if deadline is None else whole(deadline)),
            moment(created),
            moment_or_null(finished),
            Counts(*counts),
        )


class AttemptPhases(Struct):
    """Milliseconds by phase. A phase not reached, or not needed on a kept connection, is left out."""

    total: float
    dns: float | UnsetType = UNSET
    connect: float | UnsetType = UNSET
    tls: float | UnsetType = UNSET
    send: float | UnsetType = UNSET
    first_byte: float | UnsetType = UNSET


class AttemptDetail(Struct):
    """The details of an attempt; those that do not apply are left out.

    `address` is the one connected to; each of `addresses_refused` says why it may not be. `reused` tells
    whether the connection was kept from before. `answer_cut` is why `answer` is not the whole response.
    `reason` is why the delivery is dead, or `dispatcher_lost`: the process that made the attempt is gone, and
    whether it sent the request is not known. `never_sent`: its turn did not come for APP_RETENTION_DAYS.
    `event_lost`: what was to be sent is damaged.
    """

    summary: str | UnsetType = UNSET
    phases_ms: AttemptPhases | UnsetType = UNSET
    address: str | UnsetType = UNSET
    addresses_refused: list[str] | UnsetType = UNSET
    tls_version: str | UnsetType = UNSET
    reused: bool | UnsetType = UNSET
    retry_after_seconds: float | UnsetType = UNSET
    answer_cut: Literal["size", "deadline", "peer", "framing"] | UnsetType = UNSET
    reason: (
        Literal["gone", "not_allowed", "attempts_used_up", "dispatcher_lost", "never_sent", "event_lost"]
        | UnsetType
    ) = UNSET


class DeliveryAttempt(Schema):
    """One POST. `answer` is the first 8 KiB of what came back, as text; what is not UTF-8 is replaced.

    `outcome` is `delivered` (2xx), `gone` (410), `http_error` (any other status, redirects too), `timeout`
    (before it was sent whole), `unknown` (sent, but no whole response: it may have been acted upon),
    `dns_error`, `refused` (nobody listens), `connect_error`, `tls_error`, `protocol_error` (the response is
    not HTTP/1), `blocked` (the name leads to an address that may not be dialled), `not_allowed` (the URL is
    not on the list), or `internal_error` (ours).
    """

    attempt: int
    started_at: Moment
    ended_at: Moment
    outcome: Outcome
    status_code: int | None
    detail: AttemptDetail | None
    answer: str | None


class Health(Schema):
    status: Literal["ok"]


class Readiness(Schema, omit_defaults=True):
    status: Literal["ready"]
    degraded: str | None = None
    behind: list[str] = []


class Redelivered(Schema):
    redelivered: int


class FieldFault(Schema):
    pointer: str
    detail: str


class ProblemDocument(Schema):
    """A problem by RFC 9457: `code` says which one it is, `errors` (with 422) which field is at fault."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: list[FieldFault] | UnsetType = UNSET
