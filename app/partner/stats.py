"""GET /v1/stats: exact counts by status."""

from __future__ import annotations

from app.partner.schemas import Stats
from app.partner.store import Store
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Routes
from app.web.schemas import raw

routes = Routes()


@routes.get("/v1/stats", Stats)
def read_stats(context: Context[Store], _request: Request) -> Response:
    """Count tasks, sub_tasks and deliveries by status, exactly."""
    return json_response(raw(context.store.stats()))
