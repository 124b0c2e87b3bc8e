"""Listing the sub_tasks of a task."""

from __future__ import annotations

from app import ids
from app.partner.schemas import SubTask, SubTaskPage
from app.partner.store import Store
from app.web import cursors
from app.web.fields import known_task_id, unknown_task
from app.web.problems import NotFound
from app.web.request import Request
from app.web.response import Response, page
from app.web.routes import CURSOR, LIMIT, Context, Routes, status_of
from app.web.schemas import SUB_TASK_STATUSES

routes = Routes()

# Payloads and results may be large: a page is read in pieces, and ends early when it grows too big.
PIECE = 100
MAX_PAGE_BYTES = 16 * 1024 * 1024


@routes.get(
    "/v1/tasks/<task_id>/sub_tasks",
    SubTaskPage,
    query=(status_of(SUB_TASK_STATUSES), LIMIT, CURSOR),
    problems=(NotFound,),
)
def list_sub_tasks(context: Context[Store], request: Request, task_id: str) -> Response:
    """List the sub_tasks of a task, in the order given.

    A page of large payloads may end before `limit`: `next_cursor` tells whether there is more.
    """
    number = known_task_id(task_id)
    status, limit = request.choice("status", SUB_TASK_STATUSES), request.limit()
    (after,) = request.cursor("s") or (number,)
    sub_tasks, is_last = _collect(context.store, number, status, limit, after)
    if not sub_tasks and context.store.read_task(number) is None:
        raise unknown_task()
    return page(sub_tasks, None if is_last else cursors.write("s", ids.number_of(sub_tasks[-1].id)))


def _collect(
    store: Store, task_id: int, status: str | None, limit: int, after: int
) -> tuple[list[SubTask], bool]:
    """Return a page of sub_tasks, and whether it is the last one."""
    sub_tasks: list[SubTask] = []
    size = 0
    while len(sub_tasks) < limit and size < MAX_PAGE_BYTES:
        wanted = min(PIECE, limit - len(sub_tasks))
        piece = store.list_sub_tasks(task_id, status, wanted, after)
        sub_tasks += piece
        if len(piece) < wanted:
            return sub_tasks, True
        after = ids.number_of(piece[-1].id)
        size += sum(len(memoryview(raw)) for one in piece for raw in (one.payload, one.result, one.error))
    return sub_tasks, False
