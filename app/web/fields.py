"""Types of the fields of requests that more than one audience takes, with their limits."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app import ids
from app.web.problems import NotFound

QUEUE_PATTERN = r"\A[a-z0-9][a-z0-9_.-]{0,62}\Z"
DEFAULT_QUEUE = "default"
MAX_BATCH = 1000
MAX_SUB_TASKS = 10_000

QueueName = Annotated[str, Meta(pattern=QUEUE_PATTERN, description="lower-case letters, digits, `_.-`")]
# No control characters: PostgreSQL's text takes no NUL, and line ends would break logs.
WorkerId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z",
        description="names the worker; 1 to 200 characters, no control characters",
    ),
]
Limit = Annotated[int, Meta(ge=1, le=MAX_BATCH)]
LeaseSeconds = Annotated[int, Meta(ge=1, le=3600)]
MaxAttempts = Annotated[int, Meta(ge=1, le=100)]


def known_task_id(text: str) -> int:
    """Return the number in a task id. Raise NotFound for any other text, as for an id that is unknown."""
    task_id = ids.parse_task_id(text)
    if task_id is None:
        raise unknown_task()
    return task_id


def unknown_task() -> NotFound:
    return NotFound("there is no such task")
