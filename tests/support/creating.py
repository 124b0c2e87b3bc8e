"""rvq.create_tasks as tests call it: its statement, and its parameters made from tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

CREATE = (
    "SELECT * FROM rvq.create_tasks(%s::text[],%s::integer[],%s::text[],%s::integer[],%s::text[],%s::text[],"
    "%s::text[],%s::timestamptz[],%s::text[],%s::integer[],%s::float8[],%s::text[],%s::bytea[])"
)


@dataclass(frozen=True)
class NewTask:
    """`max_attempts`: one for each payload. `deadline` in seconds."""

    payloads: Sequence[str] = ("1",)
    max_attempts: Sequence[int] = (5,)
    queue: str = "default"
    metadata: str | None = None
    webhook: str | None = None
    host: str | None = None
    not_before: datetime | None = None
    policy: str = "all"
    required: int | None = None
    deadline: float | None = None
    key: str | None = None
    body_hash: bytes | None = None


def create_params(*tasks: NewTask) -> tuple[list[object], ...]:
    """What goes with CREATE."""
    return (
        [task.queue for task in tasks],
        [len(task.payloads) for task in tasks],
        [payload for task in tasks for payload in task.payloads],
        [most for task in tasks for most in task.max_attempts],
        [task.metadata for task in tasks],
        [task.webhook for task in tasks],
        [task.host for task in tasks],
        [task.not_before for task in tasks],
        [task.policy for task in tasks],
        [task.required for task in tasks],
        [task.deadline for task in tasks],
        [task.key for task in tasks],
        [task.body_hash for task in tasks],
    )
