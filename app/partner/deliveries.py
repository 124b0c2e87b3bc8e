"""The deliveries of a task with their attempts, and sending its event again."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from app import ids
from app.partner.scope import Scope
from app.partner.store import DeliveryRow
from app.partner.tasks import known_task_id, unknown_task
from app.web.delivery_schemas import DeliveryPage, Redelivered
from app.web.problems import NotFound, StateConflict
from app.web.request import Request
from app.web.response import Response, answer, page, quoted
from app.web.routes import Route
from app.web.times import json_time


def list_deliveries(scope: Scope, _request: Request, task_id: str) -> Response:
    number = known_task_id(task_id)
    rows = scope.store.list_deliveries(number)
    if not rows and scope.store.read_task(number) is None:
        raise unknown_task()
    return page((_delivery_json(list(group)) for _, group in groupby(rows, attrgetter("delivery_id"))), None)


def redeliver_task(scope: Scope, _request: Request, task_id: str) -> Response:
    outcome = scope.store.redeliver_task(known_task_id(task_id))
    if outcome == "unknown":
        raise unknown_task()
    if outcome == "nothing_to_send":
        raise StateConflict("there is nothing to send: the task has not ended, or has no webhook_url")
    return answer('{"redelivered":1}')


def _delivery_json(rows: list[DeliveryRow]) -> str:
    first = rows[0]
    attempts = ",".join(_attempt_json(row) for row in rows if row.attempt is not None)
    return (
        f'{{"id":"{ids.delivery_id(first.delivery_id)}","event_id":"{ids.event_id(first.delivery_id)}"'
        f',"type":"task.{first.event_status}","status":{quoted(first.status)},"url":{quoted(first.url)}'
        f',"created_at":{json_time(first.created_at)},"next_attempt_at":{json_time(first.next_attempt_at)}'
        f',"attempts":[{attempts}]}}'
    )


def _attempt_json(row: DeliveryRow) -> str:
    """`detail` is JSON already; `answer` is what the receiver said, shown as text whatever it is."""
    text = None if row.answer is None else bytes(row.answer).decode("utf-8", "replace")
    return (
        f'{{"attempt":{row.attempt},"started_at":{json_time(row.started_at)}'
        f',"ended_at":{json_time(row.ended_at)},"outcome":{quoted(row.outcome)}'
        f',"status_code":{"null" if row.status_code is None else row.status_code}'
        f',"detail":{row.detail or "null"},"answer":{quoted(text)}}}'
    )


ROUTES = (
    Route(
        "GET",
        "/v1/tasks/<task_id>/deliveries",
        list_deliveries,
        "List the deliveries of a task with their attempts",
        answers={200: DeliveryPage},
        problems=(NotFound,),
    ),
    Route(
        "POST",
        "/v1/tasks/<task_id>/redeliver",
        redeliver_task,
        "Send the last event of a task again, under the same webhook-id",
        answers={200: Redelivered},
        problems=(NotFound, StateConflict),
    ),
)
