"""GET /v1/stats: exact counts by status."""

from __future__ import annotations

from app.partner.schemas import Stats
from app.partner.store import Store
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Route
from app.web.schemas import raw


def read_stats(context: Context[Store], _request: Request) -> Response:
    return json_response(raw(context.store.stats()))


ROUTES = (
    Route(
        "GET",
        "/v1/stats",
        read_stats,
        "Tasks, sub_tasks and deliveries counted by status, exactly",
        responses={200: Stats},
    ),
)
