"""The deliveries of a task with their attempts, and sending its event again."""

from __future__ import annotations

from app.partner.schemas import DeliveryPage
from app.partner.store import Store
from app.web.fields import known_task_id, unknown_task
from app.web.problems import NotFound, StateConflict
from app.web.request import Request
from app.web.response import Response, json_response, page
from app.web.routes import Context, Route
from app.web.schemas import Redelivered


def list_deliveries(context: Context[Store], _request: Request, task_id: str) -> Response:
    number = known_task_id(task_id)
    deliveries = context.store.list_deliveries(number)
    if not deliveries and context.store.read_task(number) is None:
        raise unknown_task()
    return page(deliveries, None)


def redeliver_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    redelivered = context.store.redeliver_task(known_task_id(task_id))
    if redelivered < 0:
        raise unknown_task()
    if redelivered == 0:
        raise StateConflict("there is nothing to send: the task has not ended, or has no webhook_url")
    return json_response(Redelivered(redelivered))


ROUTES = (
    Route(
        "GET",
        "/v1/tasks/<task_id>/deliveries",
        list_deliveries,
        "List the deliveries of a task with their attempts",
        responses={200: DeliveryPage},
        problems=(NotFound,),
    ),
    Route(
        "POST",
        "/v1/tasks/<task_id>/redeliver",
        redeliver_task,
        "Send the last event of a task again, under the same webhook-id",
        responses={200: Redelivered},
        problems=(NotFound, StateConflict),
    ),
)
