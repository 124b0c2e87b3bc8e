"""Retrying and cancelling a task."""

from __future__ import annotations

import logging

from app import ids
from app.admin.store import Store
from app.web.fields import known_task_id, unknown_task
from app.web.problems import NotFound, StateConflict, already_done
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Routes
from app.web.schemas import Task

routes = Routes()

log = logging.getLogger("rvq.admin")

REFUSALS = {
    "unfinished": "the task has not ended",
    "nothing_failed": "the task did not fail",
    "finished": "the task has ended already",
}


@routes.post("/v1/admin/tasks/<task_id>/retry", Task, problems=(NotFound, StateConflict))
def retry_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    """Run what failed of a task again.

    The task reopens, and ends with a new event under a new webhook-id.
    """
    number = known_task_id(task_id)
    return _respond(context, number, "retried", context.store.retry_task(number))


@routes.post("/v1/admin/tasks/<task_id>/cancel", Task, problems=(NotFound, StateConflict))
def cancel_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    """Cancel a task."""
    number = known_task_id(task_id)
    return _respond(context, number, "cancelled", context.store.cancel_task(number))


def _respond(context: Context[Store], number: int, wanted: str, outcome: str) -> Response:
    if outcome == "unknown":
        raise unknown_task()
    if outcome != wanted:
        raise StateConflict(REFUSALS[outcome])
    log.info("task %s", wanted, extra={"task_id": ids.task_id(number)})
    with already_done(f"the task was {wanted}"):
        task = context.store.read_task(number)
    if task is None:
        raise unknown_task()
    return json_response(task)
