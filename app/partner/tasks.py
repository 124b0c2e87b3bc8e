"""Reading, listing and cancelling tasks."""

from __future__ import annotations

from app import ids
from app.partner.schemas import TaskPage
from app.partner.store import Store
from app.web import cursors
from app.web.fields import known_task_id, unknown_task
from app.web.problems import NotFound, StateConflict, already_done
from app.web.request import Request
from app.web.response import Response, json_response, page
from app.web.routes import CURSOR, LIMIT, Context, Routes, status_of
from app.web.schemas import TASK_STATUSES, Task

routes = Routes()


@routes.get("/v1/tasks/<task_id>", Task, problems=(NotFound,))
def read_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    """Read a task."""
    return json_response(_find(context, known_task_id(task_id)))


@routes.get("/v1/tasks", TaskPage, query=(status_of(TASK_STATUSES), LIMIT, CURSOR))
def list_tasks(context: Context[Store], request: Request) -> Response:
    """List tasks, newest first."""
    status, limit = request.choice("status", TASK_STATUSES), request.limit()
    (before,) = request.cursor("t", 1) or (None,)
    tasks = context.store.list_tasks(status, limit, before)
    return page(tasks, cursors.write("t", ids.number_of(tasks[-1].id)) if len(tasks) == limit else None)


@routes.post("/v1/tasks/<task_id>/cancel", Task, problems=(NotFound, StateConflict))
def cancel_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    """Cancel a task.

    What is not finished becomes `cancelled`; workers learn it at their next heartbeat.
    """
    number = known_task_id(task_id)
    outcome = context.store.cancel_task(number)
    if outcome == "unknown":
        raise unknown_task()
    if outcome == "finished":
        raise StateConflict("the task has ended already")
    with already_done("the task was cancelled"):
        return json_response(_find(context, number))


def _find(context: Context[Store], task_id: int) -> Task:
    task = context.store.read_task(task_id)
    if task is None:
        raise unknown_task()
    return task
