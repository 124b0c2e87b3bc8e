"""The JSON that the worker API responds with."""

from __future__ import annotations

from typing import Literal

from app import ids
from app.db import Row
from app.web.schemas import Json, Moment, Schema, raw


class ClaimedSubTask(Schema):
    id: str
    task_id: str
    index: int
    queue: str
    attempt: int
    max_attempts: int
    payload: Json
    lease_token: str
    lease_expires_at: Moment

    @classmethod
    def from_row(cls, row: Row, lease_expires_at: str) -> ClaimedSubTask:
        """Return the sub_task of a row of rvq.claim_sub_tasks, which begins with its claim's number."""
        _, number, queue, attempt, max_attempts, payload, lease_token, _ = row
        return cls(
            ids.sub_task_id(number),
            ids.task_id(ids.task_of(number)),
            ids.index_of(number),
            queue,
            attempt,
            max_attempts,
            raw(payload),
            lease_token.replace("-", ""),
            lease_expires_at,
        )


class Claimed(Schema):
    sub_tasks: list[ClaimedSubTask]


class Reported(Schema):
    id: str | None
    outcome: Literal["succeeded", "retrying", "failed", "duplicate", "stale", "unknown", "invalid"]


class Completed(Schema):
    results: list[Reported]


class Beat(Schema):
    id: str | None
    outcome: Literal["extended", "stale", "cancelled", "unknown"]


class Heartbeats(Schema):
    results: list[Beat]


class Release(Schema):
    id: str | None
    outcome: Literal["released", "stale", "unknown"]


class Releases(Schema):
    results: list[Release]
