"""Counters against the truth, and the reset of everything."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec
from msgspec import Struct

from app.admin.schemas import Audit, Repaired, WasReset
from app.admin.scope import Scope
from app.web.request import Request
from app.web.response import Response, answer
from app.web.routes import Route

log = logging.getLogger("rvq.admin")


class ResetBody(Struct, forbid_unknown_fields=True):
    """`confirm` must be the word `reset`."""

    confirm: Literal["reset"]


DECODER = msgspec.json.Decoder(ResetBody)


def audit(scope: Scope, _request: Request) -> Response:
    rows = scope.store.audit()
    drift = sum(row.counted != row.truth for row in rows)
    return answer(msgspec.json.encode({"drift": drift, "counters": [row._asdict() for row in rows]}))


def repair_counters(scope: Scope, _request: Request) -> Response:
    repaired = scope.store.repair_counters()
    log.warning("counters repaired", extra={"repaired": repaired})
    return answer(f'{{"repaired":{repaired}}}')


def reset(scope: Scope, request: Request) -> Response:
    request.json(DECODER)
    scope.store.reset()
    log.warning("everything was reset")
    return answer('{"reset":true}')


ROUTES = (
    Route(
        "GET",
        "/v1/admin/audit",
        audit,
        "Compare every counter with the truth",
        answers={200: Audit},
        detail="Reads all facts: minutes on a long history. `drift` is how many counters differ.",
    ),
    Route(
        "POST",
        "/v1/admin/audit/repair",
        repair_counters,
        "Set counters that drifted to the truth",
        answers={200: Repaired},
    ),
    Route(
        "POST",
        "/v1/admin/reset",
        reset,
        "Empty everything",
        answers={200: WasReset},
        body=ResetBody,
        detail="Also while traffic runs: old leases are unknown afterwards. Paused queues stay paused.",
    ),
)
