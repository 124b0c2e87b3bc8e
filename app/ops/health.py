"""Whether the API is alive and ready, and its metrics."""

from __future__ import annotations

import json

from app.db import DatabaseError, DatabaseNotStoring, StatementTimeout
from app.ops.store import Store
from app.web import metrics
from app.web.problems import NotReady
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Routes
from app.web.schemas import Health, Readiness

# Seconds. Maintenance is done several times a second.
NO_MAINTENANCE = 60.0

routes = Routes()
metrics_routes = Routes()


@routes.get("/healthz", Health)
def healthz(_context: Context[Store], _request: Request) -> Response:
    """Tell whether the process is alive, without asking the database."""
    return json_response(Health("ok"))


@routes.get("/readyz", Readiness, problems=(NotReady,))
def readyz(context: Context[Store], _request: Request) -> Response:
    """Tell whether requests can be served: schema current, database writable.

    Writable means that a small commit went through in the last five seconds.

    `degraded` says that no dispatcher has done its maintenance for a minute: leases don't expire, deadlines
    don't end, no webhook is sent. It is no 503, which would take the API away as well.

    `behind` names the steps of maintenance that are late, if any are: requests are served all the same, and
    what the steps do comes late.
    """
    if not context.store.has_current_schema():
        raise NotReady("the database's schema is not the one of this release")
    if not context.store.is_writable():
        raise NotReady("the database takes no writes")
    try:
        context.store.require_commits()
    except DatabaseNotStoring as error:
        raise NotReady(f"the database stores nothing: {error}") from error
    return json_response(Readiness("ready", _degraded(context.store), context.store.late_steps()))


def _degraded(store: Store) -> str | None:
    seconds = store.maintenance_seconds()
    if seconds <= NO_MAINTENANCE:
        return None
    return f"no dispatcher has done its maintenance for {seconds:.0f} s: does one run?"


@metrics_routes.get("/metrics", "text/plain")
def read_metrics(context: Context[Store], _request: Request) -> Response:
    """Read the Prometheus metrics of all processes."""
    # The processes' own figures matter most when the database is away, or slow to count.
    stats, maintenance_seconds, is_up = None, None, True
    try:
        maintenance_seconds = context.store.maintenance_seconds()
        stats = json.loads(context.store.stats())
    except StatementTimeout:
        pass
    except DatabaseError:
        is_up = False
    text = metrics.exposition(stats, maintenance_seconds, is_up)
    return Response(text, media_type=metrics.CONTENT_TYPE)
