"""Listing the sub_tasks of a task."""

from __future__ import annotations

from app import ids
from app.partner.scope import Scope
from app.partner.store import SubTaskRow
from app.partner.tasks import known_task_id, unknown_task
from app.web import cursors
from app.web.fields import SUB_TASK_STATUSES
from app.web.problems import NotFound
from app.web.request import Request
from app.web.response import Response, page, quoted
from app.web.routes import Route
from app.web.schemas import SubTaskPage
from app.web.times import json_time

# Payloads and results are large at worst: a page is read in pieces and ends early when it grows too big.
PIECE = 100
MAX_PAGE_CHARACTERS = 16 * 1024 * 1024


def list_sub_tasks(scope: Scope, request: Request, task_id: str) -> Response:
    number = known_task_id(task_id)
    status, limit = request.choice("status", SUB_TASK_STATUSES), request.limit()
    (after,) = request.cursor("s") or (number,)
    items, last = _collect(scope, number, status, limit, after)
    if not items and scope.store.read_task(number) is None:
        raise unknown_task()
    return page(items, None if last is None else cursors.write("s", last))


def _collect(
    scope: Scope, task_id: int, status: str | None, limit: int, after: int
) -> tuple[list[str], int | None]:
    """The items of a page, and the id after which the next one starts."""
    items: list[str] = []
    size = 0
    while len(items) < limit and size < MAX_PAGE_CHARACTERS:
        wanted = min(PIECE, limit - len(items))
        rows = scope.store.list_sub_tasks(task_id, status, wanted, after)
        items += map(_sub_task_json, rows)
        if len(rows) < wanted:
            return items, None
        after = rows[-1].id
        size += sum(map(len, items[-len(rows) :]))
    return items, after


def _sub_task_json(row: SubTaskRow) -> str:
    return (
        f'{{"id":"{ids.sub_task_id(row.id)}","task_id":"{ids.task_id(ids.task_of(row.id))}"'
        f',"index":{ids.index_of(row.id)},"status":"{row.status}"'
        f',"attempt":{row.attempt or 0},"max_attempts":{row.max_attempts},"payload":{row.payload}'
        f',"result":{"null" if row.result is None else row.result}'
        f',"error":{"null" if row.error is None else row.error}'
        f',"queued_at":{json_time(row.queued_at)},"finished_at":{json_time(row.finished_at)}'
        f',"worker_id":{quoted(row.worker_id)}}}'
    )


ROUTES = (
    Route(
        "GET",
        "/v1/tasks/<task_id>/sub_tasks",
        list_sub_tasks,
        "List the sub_tasks of a task, in the order given",
        answers={200: SubTaskPage},
        query=("status", "limit", "cursor"),
        problems=(NotFound,),
        detail="A page of large payloads may end before `limit`: `next_cursor` tells whether there is more.",
    ),
)
