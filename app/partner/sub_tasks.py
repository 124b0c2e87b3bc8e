"""Listing the sub_tasks of a task."""

from __future__ import annotations

from app.partner.schemas import SubTask, SubTaskPage
from app.partner.store import Store
from app.partner.tasks import known_task_id, unknown_task
from app.web import cursors
from app.web.problems import NotFound
from app.web.request import Request
from app.web.response import Response, page
from app.web.routes import CURSOR, LIMIT, Context, Route, status_of
from app.web.schemas import SUB_TASK_STATUSES

# Payloads and results are large at worst: a page is read in pieces and ends early when it grows too big.
PIECE = 100
MAX_PAGE_CHARACTERS = 16 * 1024 * 1024


def list_sub_tasks(context: Context[Store], request: Request, task_id: str) -> Response:
    number = known_task_id(task_id)
    status, limit = request.choice("status", SUB_TASK_STATUSES), request.limit()
    (after,) = request.cursor("s") or (number,)
    items, last = _collect(context, number, status, limit, after)
    if not items and context.store.read_task(number) is None:
        raise unknown_task()
    return page(items, None if last is None else cursors.write("s", last))


def _collect(
    context: Context[Store], task_id: int, status: str | None, limit: int, after: int
) -> tuple[list[SubTask], int | None]:
    """The items of a page, and the id after which the next one starts."""
    items: list[SubTask] = []
    size = 0
    while len(items) < limit and size < MAX_PAGE_CHARACTERS:
        wanted = min(PIECE, limit - len(items))
        rows = context.store.list_sub_tasks(task_id, status, wanted, after)
        items += map(SubTask.of, rows)
        if len(rows) < wanted:
            return items, None
        after = rows[-1].id
        size += sum(len(row.payload) + len(row.result or row.error or "") for row in rows)
    return items, after


ROUTES = (
    Route(
        "GET",
        "/v1/tasks/<task_id>/sub_tasks",
        list_sub_tasks,
        "List the sub_tasks of a task, in the order given",
        responses={200: SubTaskPage},
        query=(status_of(SUB_TASK_STATUSES), LIMIT, CURSOR),
        problems=(NotFound,),
        detail="A page of large payloads may end before `limit`: `next_cursor` tells whether there is more.",
    ),
)
