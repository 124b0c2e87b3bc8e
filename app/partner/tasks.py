"""Reading, listing and cancelling tasks."""

from __future__ import annotations

from app import ids
from app.partner.scope import Scope
from app.web import cursors
from app.web.fields import TASK_STATUSES
from app.web.problems import NotFound, StateConflict
from app.web.request import Request
from app.web.response import Response, answer, page
from app.web.routes import Route
from app.web.schemas import Task, TaskPage
from app.web.task_views import TaskRow, task_json


def known_task_id(text: str) -> int:
    """The number in a task id. Raises NotFound."""
    task_id = ids.parse_task_id(text)
    if task_id is None:
        raise unknown_task()
    return task_id


def unknown_task() -> NotFound:
    return NotFound("there is no such task")


def read_task(scope: Scope, _request: Request, task_id: str) -> Response:
    return answer(task_json(_find(scope, known_task_id(task_id))))


def list_tasks(scope: Scope, request: Request) -> Response:
    status, limit = request.choice("status", TASK_STATUSES), request.limit()
    (before,) = request.cursor("t") or (None,)
    rows = scope.store.list_tasks(status, limit, before)
    return page(map(task_json, rows), cursors.write("t", rows[-1].id) if len(rows) == limit else None)


def cancel_task(scope: Scope, _request: Request, task_id: str) -> Response:
    number = known_task_id(task_id)
    outcome = scope.store.cancel_task(number)
    if outcome == "unknown":
        raise unknown_task()
    if outcome == "finished":
        raise StateConflict("the task has ended already")
    return answer(task_json(_find(scope, number)))


def _find(scope: Scope, task_id: int) -> TaskRow:
    row = scope.store.read_task(task_id)
    if row is None:
        raise unknown_task()
    return row


ROUTES = (
    Route(
        "GET",
        "/v1/tasks",
        list_tasks,
        "List tasks, newest first",
        answers={200: TaskPage},
        query=("status", "limit", "cursor"),
    ),
    Route("GET", "/v1/tasks/<task_id>", read_task, "Read a task", answers={200: Task}, problems=(NotFound,)),
    Route(
        "POST",
        "/v1/tasks/<task_id>/cancel",
        cancel_task,
        "Cancel a task",
        answers={200: Task},
        problems=(NotFound, StateConflict),
        detail="What is not finished becomes `cancelled`; workers learn it at their next heartbeat.",
    ),
)
