"""Finding deliveries and sending them again, one by one or many at once."""

from __future__ import annotations

import logging
import re
import time
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from app import ids
from app.admin.schemas import AdminDeliveryPage, BulkRedelivery
from app.admin.store import Store
from app.db import DatabaseError
from app.db.errors import OutcomeUnknown
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
# Proxies wait for 30 s, and a last batch takes its time too.
BULK_SECONDS = 15.0
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
    (before,) = request.cursor("d", 1) or (None,)
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

    At most 10 000 in one call, or what it can do in 15 s; `complete` is false when there may be more.
    `dry_run` counts. `redelivered` is less than `matched` when some are being sent at this moment, or were
    sent 1000 times already.
    """
    body = request.json(DECODER).value
    done = _Bulk(context.store, body, _since(body.since))
    give_up = time.monotonic() + BULK_SECONDS
    try:
        while not done.complete and done.matched < MAX_REDELIVERIES and time.monotonic() < give_up:
            done.do_batch()
    except DatabaseError as error:
        # A batch that failed changed nothing; what was done before it must be told.
        if not done.matched or isinstance(error, OutcomeUnknown):
            raise
    log.info("deliveries sent again", extra={"matched": done.matched, "redelivered": done.redelivered})
    return json_response(BulkRedelivery(done.matched, done.redelivered, body.dry_run, done.complete))


class _Bulk:
    """Sends deliveries again, newest first, a batch at a time, and counts them."""

    def __init__(self, store: Store, body: RedeliverBody, since: datetime | None) -> None:
        self.matched = self.redelivered = 0
        self.complete = False
        self._store = store
        self._body = body
        self._since = since
        self._before: int | None = None

    def do_batch(self) -> None:
        body = self._body
        found = self._store.list_deliveries(body.status, body.host, self._since, BATCH, self._before)
        numbers = [ids.number_of(delivery.id) for delivery in found]
        if numbers and not body.dry_run:
            self.redelivered += self._store.redeliver(numbers).count("redelivered")
        self.matched += len(numbers)
        self.complete = len(numbers) < BATCH
        self._before = numbers[-1] if numbers else None


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
