"""Reading, listing and cancelling tasks."""

from __future__ import annotations

from app import cursors, ids
from app.answers import Answer, answer, page
from app.fields import TASK_STATUSES
from app.incoming import Incoming
from app.partner.scope import Scope
from app.problems import NotFound, StateConflict
from app.routes import Route
from app.shapes import Task, TaskPage
from app.task_views import TaskRow, task_json


def known_task_id(text: str) -> int:
    """The number in a task id. Raises NotFound."""
    task_id = ids.parse_task_id(text)
    if task_id is None:
        raise unknown_task()
    return task_id


def unknown_task() -> NotFound:
    return NotFound("there is no such task")


def read_task(scope: Scope, _incoming: Incoming, task_id: str) -> Answer:
    return answer(task_json(_find(scope, known_task_id(task_id))))


def list_tasks(scope: Scope, incoming: Incoming) -> Answer:
    status, limit = incoming.choice("status", TASK_STATUSES), incoming.limit()
    (before,) = incoming.cursor("t") or (None,)
    rows = scope.store.list_tasks(status, limit, before)
    return page(map(task_json, rows), cursors.write("t", rows[-1].id) if len(rows) == limit else None)


def cancel_task(scope: Scope, _incoming: Incoming, task_id: str) -> Answer:
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
