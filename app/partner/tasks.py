"""Reading, listing and cancelling tasks."""

from __future__ import annotations

from app import ids
from app.partner.schemas import TaskPage
from app.partner.store import Store
from app.web import cursors
from app.web.fields import known_task_id, unknown_task
from app.web.problems import NotFound, StateConflict
from app.web.request import Request
from app.web.response import Response, json_response, page
from app.web.routes import CURSOR, LIMIT, Context, Route, status_of
from app.web.schemas import TASK_STATUSES, Task


def read_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    return json_response(_find(context, known_task_id(task_id)))


def list_tasks(context: Context[Store], request: Request) -> Response:
    status, limit = request.choice("status", TASK_STATUSES), request.limit()
    (before,) = request.cursor("t") or (None,)
    tasks = context.store.list_tasks(status, limit, before)
    return page(tasks, cursors.write("t", ids.number_of(tasks[-1].id)) if len(tasks) == limit else None)


def cancel_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    number = known_task_id(task_id)
    outcome = context.store.cancel_task(number)
    if outcome == "unknown":
        raise unknown_task()
    if outcome == "finished":
        raise StateConflict("the task has ended already")
    return json_response(_find(context, number))


def _find(context: Context[Store], task_id: int) -> Task:
    task = context.store.read_task(task_id)
    if task is None:
        raise unknown_task()
    return task


ROUTES = (
    Route(
        "GET",
        "/v1/tasks",
        list_tasks,
        "List tasks, newest first",
        responses={200: TaskPage},
        query=(status_of(TASK_STATUSES), LIMIT, CURSOR),
    ),
    Route(
        "GET", "/v1/tasks/<task_id>", read_task, "Read a task", responses={200: Task}, problems=(NotFound,)
    ),
    Route(
        "POST",
        "/v1/tasks/<task_id>/cancel",
        cancel_task,
        "Cancel a task",
        responses={200: Task},
        problems=(NotFound, StateConflict),
        detail="What is not finished becomes `cancelled`; workers learn it at their next heartbeat.",
    ),
)
