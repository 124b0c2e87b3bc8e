"""Who may call what: every route belongs to exactly one audience, and its guard stands beside it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app import admin, ops, partner, worker
from app.admin.store import Store as AdminStore
from app.db import Pool
from app.db.coalescing import Coalescer
from app.ops.store import Store as OpsStore
from app.partner.store import Store as PartnerStore
from app.settings import Settings
from app.web.auth import BearerGuard
from app.web.routes import Context, Route
from app.worker.store import Store as WorkerStore

# OpenAPI lists the routes in this order.
TABLE: tuple[tuple[str, tuple[Route, ...]], ...] = (
    ("partner", partner.ROUTES),
    ("worker", worker.ROUTES),
    ("admin", (*admin.ROUTES, *ops.METRICS_ROUTES)),
    ("everyone", ops.ROUTES),
)


@dataclass(frozen=True, slots=True)
class Audience:
    """Routes with one guard and one context; `guard` is None where everyone may call."""

    name: str
    guard: BearerGuard | None
    context: Context[Any]
    routes: tuple[Route, ...]


def audiences(settings: Settings, pool: Pool) -> tuple[Audience, ...]:
    admins = BearerGuard("admin", settings.admin_tokens)
    workers = BearerGuard("worker", settings.worker_tokens)
    partners = BearerGuard("partner", settings.partner_tokens)
    coalescer = Coalescer(pool.max_calls)
    operations = Context(OpsStore(pool), settings)
    return (
        Audience("partner", partners, Context(PartnerStore(pool, coalescer), settings), partner.ROUTES),
        Audience("worker", workers, Context(WorkerStore(pool, coalescer), settings), worker.ROUTES),
        Audience("admin", admins, Context(AdminStore(pool), settings), admin.ROUTES),
        Audience("admin", admins, operations, ops.METRICS_ROUTES),
        Audience("everyone", None, operations, ops.ROUTES),
    )
