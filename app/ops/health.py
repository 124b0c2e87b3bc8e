"""Whether the API is alive and ready, and its metrics."""

from __future__ import annotations

import json

from app.db import DatabaseError
from app.ops.store import Store
from app.web import metrics
from app.web.problems import NotReady
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Route
from app.web.schemas import Health


def healthz(_context: Context[Store], _request: Request) -> Response:
    return json_response(Health("ok"))


def readyz(context: Context[Store], _request: Request) -> Response:
    if not context.store.has_current_schema():
        raise NotReady("the database's schema is not the one of this release")
    if not context.store.is_writable():
        raise NotReady("the database takes no writes")
    return json_response(Health("ready"))


def read_metrics(context: Context[Store], _request: Request) -> Response:
    try:
        stats = json.loads(context.store.stats())
    except DatabaseError:
        stats = None  # the processes' own figures matter most when the database is away
    return Response(metrics.exposition(stats), media_type=metrics.CONTENT_TYPE)


ROUTES = (
    Route(
        "GET",
        "/healthz",
        healthz,
        "Tell whether the process is alive, without asking the database",
        responses={200: Health},
    ),
    Route(
        "GET",
        "/readyz",
        readyz,
        "Tell whether requests can be served: schema current, database writable",
        responses={200: Health},
        problems=(NotReady,),
    ),
)
METRICS_ROUTES = (
    Route(
        "GET", "/metrics", read_metrics, "Prometheus metrics of all processes", responses={200: "text/plain"}
    ),
)
