"""GET /v1/stats."""

from __future__ import annotations

from app.answers import Answer, answer
from app.incoming import Incoming
from app.partner.scope import Scope
from app.routes import Route
from app.shapes import Stats


def read_stats(scope: Scope, _incoming: Incoming) -> Answer:
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
