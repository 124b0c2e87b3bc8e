"""Retrying and cancelling a task."""

from __future__ import annotations

import logging

from app import ids
from app.admin.scope import Scope
from app.web.problems import NotFound, StateConflict
from app.web.request import Request
from app.web.response import Response, answer
from app.web.routes import Route
from app.web.schemas import Task
from app.web.task_views import task_json

log = logging.getLogger("rvq.admin")

REFUSALS = {
    "unfinished": "the task has not ended",
    "nothing_failed": "the task did not fail",
    "finished": "the task has ended already",
}


def retry_task(scope: Scope, _request: Request, task_id: str) -> Response:
    number = _known(task_id)
    return _answer(scope, number, "retried", scope.store.retry_task(number))


def cancel_task(scope: Scope, _request: Request, task_id: str) -> Response:
    number = _known(task_id)
    return _answer(scope, number, "cancelled", scope.store.cancel_task(number))


def _answer(scope: Scope, number: int, wanted: str, outcome: str) -> Response:
    if outcome == "unknown":
        raise _unknown()
    if outcome != wanted:
        raise StateConflict(REFUSALS[outcome])
    log.info("task %s", wanted, extra={"task_id": ids.task_id(number)})
    row = scope.store.read_task(number)
    if row is None:
        raise _unknown()
    return answer(task_json(row))


def _known(text: str) -> int:
    number = ids.parse_task_id(text)
    if number is None:
        raise _unknown()
    return number


def _unknown() -> NotFound:
    return NotFound("there is no such task")


ROUTES = (
    Route(
        "POST",
        "/v1/admin/tasks/<task_id>/retry",
        retry_task,
        "Run what failed of a task again",
        answers={200: Task},
        problems=(NotFound, StateConflict),
        detail="The task reopens, and ends with a new event under a new webhook-id.",
    ),
    Route(
        "POST",
        "/v1/admin/tasks/<task_id>/cancel",
        cancel_task,
        "Cancel a task",
        answers={200: Task},
        problems=(NotFound, StateConflict),
    ),
)
