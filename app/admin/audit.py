"""The audit and repair of counters, and the reset of everything."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec
from msgspec import Struct

from app.admin.schemas import Audit, Repaired, WasReset
from app.admin.store import Store
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Routes

routes = Routes()

log = logging.getLogger("rvq.admin")


class ResetBody(Struct, forbid_unknown_fields=True):
    """`confirm` must be the word `reset`."""

    confirm: Literal["reset"]


DECODER = msgspec.json.Decoder(ResetBody)


@routes.get("/v1/admin/audit", Audit)
def audit(context: Context[Store], _request: Request) -> Response:
    """Compare every counter with the truth.

    Reads all facts: minutes on a long history. `drift` is how many counters differ.
    """
    counters = context.store.audit()
    drift = sum(counter.counted != counter.truth for counter in counters)
    return json_response(Audit(drift, counters))


@routes.post("/v1/admin/audit/repair", Repaired)
def repair_counters(context: Context[Store], _request: Request) -> Response:
    """Set counters that drifted to the truth."""
    repaired = context.store.repair_counters()
    log.warning("counters repaired", extra={"repaired": repaired})
    return json_response(Repaired(repaired))


@routes.post("/v1/admin/reset", WasReset, body=ResetBody)
def reset(context: Context[Store], request: Request) -> Response:
    """Empty everything.

    Also while traffic runs: old leases are unknown afterwards. Paused queues stay paused.
    """
    request.json(DECODER)
    context.store.reset()
    log.warning("everything was reset")
    return json_response(WasReset(True))
