"""Finding deliveries and sending them again, one by one or many at once."""

from __future__ import annotations

import logging
import re
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from app import ids
from app.admin.schemas import AdminDeliveryPage, BulkRedelivery
from app.admin.scope import Scope
from app.admin.store import DeliveryRow
from app.web import cursors
from app.web.delivery_schemas import Redelivered
from app.web.fields import DELIVERY_STATUSES
from app.web.problems import Fault, Invalid, NotFound
from app.web.request import Request
from app.web.response import Response, answer, page, quoted
from app.web.routes import Route
from app.web.times import json_time

log = logging.getLogger("rvq.admin")

BATCH = 500
MAX_REDELIVERIES = 10_000
HOST_PATTERN = r"\A[!-~]{1,300}\Z"
_HOST = re.compile(HOST_PATTERN, re.ASCII)


class RedeliverBody(Struct, forbid_unknown_fields=True):
    """Which deliveries: by default all dead ones. `host` is `name:port`, `since` when it was last tried."""

    status: Literal["pending", "delivered", "dead"] = "dead"
    host: Annotated[str, Meta(pattern=HOST_PATTERN)] | None = None
    since: Annotated[datetime, Meta(tz=True)] | None = None
    dry_run: bool = False


DECODER = msgspec.json.Decoder(RedeliverBody)


def list_deliveries(scope: Scope, request: Request) -> Response:
    status, limit = request.choice("status", DELIVERY_STATUSES), request.limit()
    host, since = _host(request), request.moment("since")
    (before,) = request.cursor("d") or (None,)
    rows = scope.store.list_deliveries(status, host, since, limit, before)
    return page(map(_delivery_json, rows), cursors.write("d", rows[-1].id) if len(rows) == limit else None)


def redeliver(scope: Scope, _request: Request, delivery_id: str) -> Response:
    number = ids.parse_delivery_id(delivery_id)
    if number is None or scope.store.redeliver([number]) == ["unknown"]:
        raise NotFound("there is no such delivery")
    log.info("delivery sent again", extra={"delivery_id": delivery_id})
    return answer('{"redelivered":1}')


def redeliver_many(scope: Scope, request: Request) -> Response:
    """In batches, each a short transaction; stops at a limit, and says whether that was all."""
    body = request.json(DECODER).value
    matched = redelivered = 0
    before: int | None = None
    complete = False
    while not complete and matched < MAX_REDELIVERIES:
        rows = scope.store.list_deliveries(body.status, body.host, body.since, BATCH, before)
        matched += len(rows)
        complete = len(rows) < BATCH
        if rows:
            before = rows[-1].id
            outcomes = [] if body.dry_run else scope.store.redeliver([row.id for row in rows])
            redelivered += outcomes.count("redelivered")
    log.info("deliveries sent again", extra={"matched": matched, "redelivered": redelivered})
    result = BulkRedelivery(matched, redelivered, body.dry_run, complete)
    return answer(msgspec.json.encode(result))


def _host(request: Request) -> str | None:
    host = request.parameter("host")
    if host is not None and not _HOST.match(host):
        raise Invalid(Fault("/host", "must be name:port"))
    return host


def _delivery_json(row: DeliveryRow) -> str:
    return (
        f'{{"id":"{ids.delivery_id(row.id)}","event_id":"{ids.event_id(row.id)}"'
        f',"task_id":"{ids.task_id(ids.task_of(row.id))}","status":{quoted(row.status)}'
        f',"host":{quoted(row.host)},"url":{quoted(row.url)},"attempts":{row.attempts or 0}'
        f',"next_attempt_at":{json_time(row.next_attempt_at)},"last_outcome":{quoted(row.last_outcome)}'
        f',"last_status_code":{"null" if row.last_status_code is None else row.last_status_code}'
        f',"last_attempt_at":{json_time(row.last_attempt_at)}}}'
    )


ROUTES = (
    Route(
        "GET",
        "/v1/admin/deliveries",
        list_deliveries,
        "List deliveries, newest first",
        answers={200: AdminDeliveryPage},
        query=("status", "host", "since", "limit", "cursor"),
    ),
    Route(
        "POST",
        "/v1/admin/deliveries/<delivery_id>/redeliver",
        redeliver,
        "Send a delivery again, under the same webhook-id",
        answers={200: Redelivered},
        problems=(NotFound,),
    ),
    Route(
        "POST",
        "/v1/admin/deliveries/redeliver",
        redeliver_many,
        "Send many deliveries again",
        answers={200: BulkRedelivery},
        body=RedeliverBody,
        detail="At most 10 000 in one call; `complete` is false when there may be more. `dry_run` counts.",
    ),
)
