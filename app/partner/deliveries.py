"""The deliveries of a task with their attempts, and sending its event again."""

from __future__ import annotations

from app.partner.schemas import DeliveryPage
from app.partner.store import Store
from app.web import cursors
from app.web.fields import known_task_id, unknown_task
from app.web.problems import NotFound, StateConflict, TooManyRedeliveries
from app.web.redelivery import respond_to_redelivery
from app.web.request import Request
from app.web.response import Response, page
from app.web.routes import CURSOR, LIMIT, Context, Routes
from app.web.schemas import Redelivered

routes = Routes()


@routes.get("/v1/tasks/<task_id>/deliveries", DeliveryPage, query=(LIMIT, CURSOR), problems=(NotFound,))
def list_deliveries(context: Context[Store], request: Request, task_id: str) -> Response:
    """List the deliveries of a task with their attempts.

    `limit` is the number of attempts; a delivery without any counts as one. A delivery whose attempts do not
    fit on a page comes again on the next one, with those that follow. A page of large answers may end before
    `limit`: there may be more as long as there is a `next_cursor`.
    """
    number = known_task_id(task_id)
    delivery, attempt = request.cursor("a", 2) or (0, 0)
    deliveries, last = context.store.list_deliveries(number, request.limit(), (delivery, attempt))
    if not deliveries and context.store.read_task(number) is None:
        raise unknown_task()
    return page(deliveries, cursors.write("a", *last) if last else None)


@routes.post(
    "/v1/tasks/<task_id>/redeliver", Redelivered, problems=(NotFound, StateConflict, TooManyRedeliveries)
)
def redeliver_task(context: Context[Store], _request: Request, task_id: str) -> Response:
    """Send the last event of a task again, under the same webhook-id.

    409 when there is nothing to send, or when it is being sent at this moment. 429 once it has been sent 1000
    times: nothing but the admin's retry of a failed task gives a new event then.
    """
    outcome = context.store.redeliver_task(known_task_id(task_id))
    if outcome == "unknown":
        raise unknown_task()
    if outcome == "nothing_to_send":
        raise StateConflict("there is nothing to send: the task has not ended, or has no webhook_url")
    return respond_to_redelivery(outcome)
