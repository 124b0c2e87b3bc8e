"""GET /v1/stats."""

from __future__ import annotations

from app.partner.scope import Scope
from app.web.request import Request
from app.web.response import Response, answer
from app.web.routes import Route
from app.web.schemas import Stats


def read_stats(scope: Scope, _request: Request) -> Response:
    return answer(scope.store.stats())


ROUTES = (
    Route(
        "GET",
        "/v1/stats",
        read_stats,
        "Tasks, sub_tasks and deliveries counted by status, exactly",
        answers={200: Stats},
    ),
)
