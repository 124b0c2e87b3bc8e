"""Alive, ready, and how it is going."""

from __future__ import annotations

import json

from app.db import DatabaseError
from app.ops.scope import Scope
from app.web import metrics
from app.web.problems import NotReady
from app.web.request import Request
from app.web.response import Response, answer
from app.web.routes import Route
from app.web.schemas import Health


def healthz(_scope: Scope, _request: Request) -> Response:
    return answer('{"status":"ok"}')


def readyz(scope: Scope, _request: Request) -> Response:
    if not scope.store.has_current_schema():
        raise NotReady("the database's schema is not the one of this release")
    if not scope.store.is_writable():
        raise NotReady("the database takes no writes")
    return answer('{"status":"ready"}')


def read_metrics(scope: Scope, _request: Request) -> Response:
    try:
        stats = json.loads(scope.store.stats())
    except DatabaseError:
        stats = None  # the processes' own figures matter most when the database is away
    return answer(metrics.exposition(stats), media_type=metrics.CONTENT_TYPE)


ROUTES = (
    Route("GET", "/healthz", healthz, "Alive; asks no database", answers={200: Health}),
    Route(
        "GET",
        "/readyz",
        readyz,
        "Ready: schema current, database writable",
        answers={200: Health},
        problems=(NotReady,),
    ),
)
METRICS_ROUTES = (
    Route(
        "GET", "/metrics", read_metrics, "Prometheus metrics of all processes", answers={200: "text/plain"}
    ),
)
