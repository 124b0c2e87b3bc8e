"""A task as the API shows it. Shared by the partner and admin audiences."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from app import ids
from app.web.response import quoted
from app.web.times import json_time


class TaskRow(NamedTuple):
    """A row of rvq.task_view, in its order."""

    id: int
    status: str
    queue: str
    metadata: str | None
    webhook_url: str | None
    policy: str
    required: int | None
    deadline_seconds: float | None
    created_at: datetime
    finished_at: datetime | None
    total: int
    scheduled: int
    queued: int
    claimed: int
    succeeded: int
    failed: int
    cancelled: int


def task_json(row: TaskRow) -> str:
    """Metadata goes out as the bytes that came in; queue and status need no escaping."""
    return (
        f'{{"id":"{ids.task_id(row.id)}","status":"{row.status}","queue":"{row.queue}"'
        f',"metadata":{"null" if row.metadata is None else row.metadata}'
        f',"webhook_url":{quoted(row.webhook_url)},"completion":{_completion(row)}'
        f',"created_at":{json_time(row.created_at)},"finished_at":{json_time(row.finished_at)}'
        f',"counts":{{"total":{row.total},"scheduled":{row.scheduled},"queued":{row.queued}'
        f',"claimed":{row.claimed},"succeeded":{row.succeeded},"failed":{row.failed}'
        f',"cancelled":{row.cancelled}}}}}'
    )


def _completion(row: TaskRow) -> str:
    count = "" if row.required is None else f',"count":{row.required}'
    deadline = "" if row.deadline_seconds is None else f',"deadline_seconds":{number(row.deadline_seconds)}'
    return f'{{"policy":"{row.policy}"{count}{deadline}}}'


def number(value: float) -> str:
    """60.0 as 60, so that a whole number comes back as one."""
    return str(int(value)) if value.is_integer() else repr(value)
