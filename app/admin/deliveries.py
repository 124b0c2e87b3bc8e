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
from app.admin.store import Store
from app.web import cursors
from app.web.moments import RULE, GivenMoment, to_utc
from app.web.problems import Fault, Invalid, NotFound, StateConflict, TooManyRedeliveries
from app.web.redelivery import respond_to_redelivery
from app.web.request import Request
from app.web.response import Response, json_response, page
from app.web.routes import CURSOR, LIMIT, TEXT, Context, Parameter, Routes, status_of
from app.web.schemas import DELIVERY_STATUSES, Redelivered

routes = Routes()

log = logging.getLogger("rvq.admin")

BATCH = 500
MAX_REDELIVERIES = 10_000
HOST_PATTERN = r"\A[!-~]{1,300}\Z"
HOST = Parameter("host", TEXT)
SINCE = Parameter("since", {"type": "string", "format": "date-time", "description": RULE})
_HOST = re.compile(HOST_PATTERN, re.ASCII)


class RedeliverBody(Struct, forbid_unknown_fields=True):
    """The deliveries to send again, by default all dead ones.

    `host` is `name:port`; `since` is the earliest time of the last try.
    """

    status: Literal["pending", "delivered", "dead"] = "dead"
    host: Annotated[str, Meta(pattern=HOST_PATTERN)] | None = None
    since: GivenMoment | None = None
    dry_run: bool = False


DECODER = msgspec.json.Decoder(RedeliverBody)


@routes.get(
    "/v1/admin/deliveries",
    AdminDeliveryPage,
    query=(status_of(DELIVERY_STATUSES), HOST, SINCE, LIMIT, CURSOR),
)
def list_deliveries(context: Context[Store], request: Request) -> Response:
    """List deliveries, newest first."""
    status, limit = request.choice("status", DELIVERY_STATUSES), request.limit()
    host, since = _host(request), request.moment("since")
    (before,) = request.cursor("d") or (None,)
    deliveries = context.store.list_deliveries(status, host, since, limit, before)
    next_cursor = cursors.write("d", ids.number_of(deliveries[-1].id)) if len(deliveries) == limit else None
    return page(deliveries, next_cursor)


@routes.post(
    "/v1/admin/deliveries/<delivery_id>/redeliver",
    Redelivered,
    problems=(NotFound, StateConflict, TooManyRedeliveries),
)
def redeliver(context: Context[Store], _request: Request, delivery_id: str) -> Response:
    """Send a delivery again, under the same webhook-id.

    409 when it is being sent at this moment. 429 once it has been sent 1000 times.
    """
    number = ids.parse_delivery_id(delivery_id)
    outcome = "unknown" if number is None else context.store.redeliver([number])[0]
    if outcome == "unknown":
        raise NotFound("there is no such delivery")
    response = respond_to_redelivery(outcome)
    log.info("delivery sent again", extra={"delivery_id": delivery_id})
    return response


@routes.post("/v1/admin/deliveries/redeliver", BulkRedelivery, body=RedeliverBody)
def redeliver_many(context: Context[Store], request: Request) -> Response:
    """Send many deliveries again.

    At most 10 000 in one call; `complete` is false when there may be more. `dry_run` counts. `redelivered` is
    less than `matched` when some are being sent at this moment, or have been sent 1000 times.
    """
    body = request.json(DECODER).value
    since = _since(body.since)
    matched = redelivered = 0
    before: int | None = None
    complete = False
    while not complete and matched < MAX_REDELIVERIES:
        deliveries = context.store.list_deliveries(body.status, body.host, since, BATCH, before)
        numbers = [ids.number_of(delivery.id) for delivery in deliveries]
        matched += len(numbers)
        complete = len(numbers) < BATCH
        if numbers:
            before = numbers[-1]
            outcomes = [] if body.dry_run else context.store.redeliver(numbers)
            redelivered += outcomes.count("redelivered")
    log.info("deliveries sent again", extra={"matched": matched, "redelivered": redelivered})
    return json_response(BulkRedelivery(matched, redelivered, body.dry_run, complete))


def _since(given: datetime | None) -> datetime | None:
    try:
        return None if given is None else to_utc(given)
    except ValueError as error:
        raise Invalid(Fault("/since", str(error))) from None


def _host(request: Request) -> str | None:
    host = request.parameter("host")
    if host is not None and not _HOST.match(host):
        raise Invalid(Fault("/host", "must be name:port"))
    return host
