"""What the worker API answers, for OpenAPI and for tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from app.web.schemas import Shape


class ClaimedSubTask(Shape):
    id: str
    task_id: str
    index: int
    queue: str
    attempt: int
    max_attempts: int
    payload: Any
    lease_token: str
    lease_expires_at: datetime


class Claimed(Shape):
    sub_tasks: list[ClaimedSubTask]


class Reported(Shape):
    id: str | None
    outcome: Literal["succeeded", "retrying", "failed", "duplicate", "stale", "unknown", "invalid"]


class Completed(Shape):
    results: list[Reported]


class Beat(Shape):
    id: str | None
    outcome: Literal["extended", "stale", "cancelled", "unknown"]


class Heartbeats(Shape):
    results: list[Beat]


class Release(Shape):
    id: str | None
    outcome: Literal["released", "stale", "unknown"]


class Releases(Shape):
    results: list[Release]
