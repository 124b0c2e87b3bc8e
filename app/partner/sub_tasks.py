"""Listing the sub_tasks of a task."""

from __future__ import annotations

from app import ids
from app.partner.schemas import SubTask, SubTaskPage
from app.partner.store import SUB_TASK_BYTES, Store
from app.web import cursors
from app.web.fields import known_task_id, unknown_task
from app.web.problems import NotFound
from app.web.request import Request
from app.web.response import Response, page
from app.web.routes import CURSOR, LIMIT, Context, Routes, status_of
from app.web.schemas import SUB_TASK_STATUSES

routes = Routes()


@routes.get(
    "/v1/tasks/<task_id>/sub_tasks",
    SubTaskPage,
    query=(status_of(SUB_TASK_STATUSES), LIMIT, CURSOR),
    problems=(NotFound,),
)
def list_sub_tasks(context: Context[Store], request: Request, task_id: str) -> Response:
    """List the sub_tasks of a task, in the order given.

    A page of large payloads may end before `limit`: there may be more as long as there is a `next_cursor`.
    """
    number = known_task_id(task_id)
    status, limit = request.choice("status", SUB_TASK_STATUSES), request.limit()
    (after,) = request.cursor("s", 1) or (number,)
    sub_tasks = context.store.list_sub_tasks(number, status, limit, after)
    if not sub_tasks and context.store.read_task(number) is None:
        raise unknown_task()
    is_last = len(sub_tasks) < limit and _size(sub_tasks) < SUB_TASK_BYTES
    return page(sub_tasks, None if is_last else cursors.write("s", ids.number_of(sub_tasks[-1].id)))


def _size(sub_tasks: list[SubTask]) -> int:
    return sum(len(memoryview(raw)) for one in sub_tasks for raw in (one.payload, one.result, one.error))
