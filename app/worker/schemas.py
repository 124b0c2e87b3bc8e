"""The JSON that the worker API answers with."""

from __future__ import annotations

from typing import Literal

from app import ids
from app.web.schemas import Json, Moment, Schema, raw
from app.worker.store import ClaimedRow


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
    def of(cls, row: ClaimedRow, lease_expires_at: str) -> ClaimedSubTask:
        return cls(
            id=ids.sub_task_id(row.id),
            task_id=ids.task_id(ids.task_of(row.id)),
            index=ids.index_of(row.id),
            queue=row.queue,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            payload=raw(row.payload),
            lease_token=row.lease_token.replace("-", ""),
            lease_expires_at=lease_expires_at,
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
