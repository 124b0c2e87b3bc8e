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
from app.web.routes import Context, Route

log = logging.getLogger("rvq.admin")


class ResetBody(Struct, forbid_unknown_fields=True):
    """`confirm` must be the word `reset`."""

    confirm: Literal["reset"]


DECODER = msgspec.json.Decoder(ResetBody)


def audit(context: Context[Store], _request: Request) -> Response:
    counters = context.store.audit()
    drift = sum(counter.counted != counter.truth for counter in counters)
    return json_response(Audit(drift, counters))


def repair_counters(context: Context[Store], _request: Request) -> Response:
    repaired = context.store.repair_counters()
    log.warning("counters repaired", extra={"repaired": repaired})
    return json_response(Repaired(repaired))


def reset(context: Context[Store], request: Request) -> Response:
    request.json(DECODER)
    context.store.reset()
    log.warning("everything was reset")
    return json_response(WasReset(True))


ROUTES = (
    Route(
        "GET",
        "/v1/admin/audit",
        audit,
        "Compare every counter with the truth",
        responses={200: Audit},
        detail="Reads all facts: minutes on a long history. `drift` is how many counters differ.",
    ),
    Route(
        "POST",
        "/v1/admin/audit/repair",
        repair_counters,
        "Set counters that drifted to the truth",
        responses={200: Repaired},
    ),
    Route(
        "POST",
        "/v1/admin/reset",
        reset,
        "Empty everything",
        responses={200: WasReset},
        body=ResetBody,
        detail="Also while traffic runs: old leases are unknown afterwards. Paused queues stay paused.",
    ),
)
