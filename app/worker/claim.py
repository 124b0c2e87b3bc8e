"""POST /v1/sub_tasks/claim: leases sub_tasks to a worker."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from app.web import metrics
from app.web.fields import DEFAULT_QUEUE, LeaseSeconds, Limit, QueueName, WorkerId
from app.web.request import Request
from app.web.response import Deferred, Response, json_response
from app.web.routes import Context, Routes
from app.worker.schemas import Claimed, ClaimedSubTask
from app.worker.store import Claim, Store

routes = Routes()

DEFAULT_LEASE_SECONDS = 60
MAX_QUEUES = 64


class ClaimBody(Struct, forbid_unknown_fields=True):
    """`queues` are in order of preference: the first is emptied before the second is looked at."""

    worker_id: WorkerId
    limit: Limit = 1
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS
    queues: Annotated[list[QueueName], Meta(min_length=1, max_length=MAX_QUEUES)] = field(
        default_factory=lambda: [DEFAULT_QUEUE]
    )


DECODER = msgspec.json.Decoder(ClaimBody)


@routes.post("/v1/sub_tasks/claim", Claimed, body=ClaimBody)
def claim_sub_tasks(context: Context[Store], request: Request) -> Deferred[list[ClaimedSubTask]]:
    """Lease sub_tasks to a worker.

    Empty when there is nothing to do. Never waits. Where payloads are large, fewer than `limit`: a claim
    goes no further once it has 16 MiB of them.
    """
    body = request.json(DECODER).value
    claim = Claim(body.worker_id, body.limit, body.lease_seconds, tuple(body.queues))
    return Deferred(context.store.claim(claim), _respond)


def _respond(sub_tasks: list[ClaimedSubTask]) -> Response:
    if sub_tasks:
        metrics.CLAIMED.inc(len(sub_tasks))
    return json_response(Claimed(sub_tasks))
