"""GET /v1/stats: exact counts by status."""

from __future__ import annotations

from app.db import StatementTimeout
from app.partner.schemas import Stats
from app.partner.store import Store
from app.web.problems import TimedOut
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Routes
from app.web.schemas import raw

routes = Routes()

WHY = "the counters could not be added up in time; /readyz names the steps of maintenance that are behind"


@routes.get("/v1/stats", Stats)
def read_stats(context: Context[Store], _request: Request) -> Response:
    """Count tasks, sub_tasks and deliveries by status, exactly.

    503 `timeout` while so many changes wait to be folded into the counters that adding them takes too long.
    """
    try:
        return json_response(raw(context.store.stats()))
    except StatementTimeout as error:
        raise TimedOut(WHY, error.retry_after) from error
