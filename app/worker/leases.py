"""POST /v1/sub_tasks/heartbeat and /v1/sub_tasks/release: extend leases, or give them back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from app import ids
from app.web.fields import MAX_BATCH, LeaseSeconds, WorkerId
from app.web.request import Request
from app.web.response import Response
from app.web.routes import Context, Routes
from app.worker.batches import Batch, respond_to_batch
from app.worker.claim import DEFAULT_LEASE_SECONDS
from app.worker.schemas import Beat, Heartbeats, Release, Releases
from app.worker.store import Lease, Store

routes = Routes()


class LeaseBody(Struct):
    """A lease. Other members are not looked at, so what a claim returned may be sent as it is."""

    id: str
    lease_token: str


class HeartbeatBody(Struct, forbid_unknown_fields=True):
    """The leases to extend; no other lease is extended."""

    worker_id: WorkerId
    leases: Annotated[list[LeaseBody], Meta(min_length=1, max_length=MAX_BATCH)]
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS


class ReleaseBody(Struct, forbid_unknown_fields=True):
    """The leases to give back."""

    worker_id: WorkerId
    leases: Annotated[list[LeaseBody], Meta(min_length=1, max_length=MAX_BATCH)]


class _LenientHeartbeat(Struct, forbid_unknown_fields=True):
    worker_id: WorkerId
    leases: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_BATCH)]
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS


class _LenientRelease(Struct, forbid_unknown_fields=True):
    worker_id: WorkerId
    leases: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_BATCH)]


HEARTBEAT_DECODER = msgspec.json.Decoder(_LenientHeartbeat)
RELEASE_DECODER = msgspec.json.Decoder(_LenientRelease)
LEASE_DECODER = msgspec.json.Decoder(LeaseBody)


@routes.post("/v1/sub_tasks/heartbeat", Heartbeats, body=HeartbeatBody)
def heartbeat_sub_tasks(context: Context[Store], request: Request) -> Response:
    """Extend leases.

    `cancelled`: stop working on it. `stale`: the lease is someone else's now.
    """
    body = request.json(HEARTBEAT_DECODER).value
    batch = _read(body.leases)
    outcomes = batch.run(lambda leases: context.store.heartbeat(body.lease_seconds, leases))
    return respond_to_batch(Heartbeats, Beat, "heartbeat", batch.names, outcomes)


@routes.post("/v1/sub_tasks/release", Releases, body=ReleaseBody)
def release_sub_tasks(context: Context[Store], request: Request) -> Response:
    """Give leases back; no attempt is charged."""
    body = request.json(RELEASE_DECODER).value
    batch = _read(body.leases)
    return respond_to_batch(Releases, Release, "release", batch.names, batch.run(context.store.release))


def _read(leases: list[Raw]) -> Batch[Lease]:
    """Decode each lease. What is not a lease of ours gets the outcome `unknown`; the others are accepted."""
    batch: Batch[Lease] = Batch()
    for raw in leases:
        try:
            lease = LEASE_DECODER.decode(raw)
        except msgspec.DecodeError:
            batch.refuse(None, "unknown")
            continue
        number, token = ids.parse_sub_task_id(lease.id), ids.parse_lease_token(lease.lease_token)
        if number is None:
            batch.refuse(lease.id, "unknown")
        else:
            batch.accept(lease.id, Lease(number, token))
    return batch
