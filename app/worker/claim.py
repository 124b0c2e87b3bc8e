"""POST /v1/sub_tasks/claim."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from app import ids
from app.web import metrics
from app.web.deferred import Later
from app.web.fields import DEFAULT_QUEUE, LeaseSeconds, Limit, QueueName, WorkerId
from app.web.request import Request
from app.web.response import Response, answer
from app.web.routes import Route
from app.web.times import rfc3339
from app.worker.schemas import Claimed
from app.worker.scope import Scope
from app.worker.store import Claim, ClaimedRow

DEFAULT_LEASE_SECONDS = 60
MAX_QUEUES = 64


class ClaimBody(Struct, forbid_unknown_fields=True):
    """`queues` in order of preference: the first is emptied before the second is looked at."""

    worker_id: WorkerId
    limit: Limit = 1
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS
    queues: Annotated[list[QueueName], Meta(min_length=1, max_length=MAX_QUEUES)] = field(
        default_factory=lambda: [DEFAULT_QUEUE]
    )


DECODER = msgspec.json.Decoder(ClaimBody)


def claim_sub_tasks(scope: Scope, request: Request) -> Later[list[ClaimedRow]]:
    body = request.json(DECODER).value
    claim = Claim(body.worker_id, body.limit, body.lease_seconds, tuple(body.queues))
    return Later(scope.store.claim(claim), _claimed)


def _claimed(rows: list[ClaimedRow]) -> Response:
    if rows:
        metrics.CLAIMED.inc(len(rows))
    # One claim's leases end at the same moment.
    expires_at = rfc3339(rows[0].lease_expires_at) if rows else ""
    return answer(f'{{"sub_tasks":[{",".join([_claimed_json(row, expires_at) for row in rows])}]}}')


def _claimed_json(row: ClaimedRow, expires_at: str) -> str:
    return (
        f'{{"id":"{ids.sub_task_id(row.id)}","task_id":"{ids.task_id(ids.task_of(row.id))}"'
        f',"index":{ids.index_of(row.id)},"queue":"{row.queue}","attempt":{row.attempt}'
        f',"max_attempts":{row.max_attempts},"payload":{row.payload}'
        f',"lease_token":"{row.lease_token.replace("-", "")}"'
        f',"lease_expires_at":"{expires_at}"}}'
    )


ROUTES = (
    Route(
        "POST",
        "/v1/sub_tasks/claim",
        claim_sub_tasks,
        "Lease sub_tasks to a worker",
        answers={200: Claimed},
        body=ClaimBody,
        detail="Empty when there is nothing to do. Never waits. Where payloads are large, fewer than `limit`:"
        " a claim goes no further once it has 16 MiB of them.",
    ),
)
