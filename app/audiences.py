"""Who may call what: every route belongs to exactly one audience, and its guard stands beside it here."""

from __future__ import annotations

from dataclasses import dataclass

from app import admin, ops, partner, worker
from app.admin.scope import Scope as AdminScope
from app.admin.store import Store as AdminStore
from app.db import Pool
from app.db.coalescing import Coalescer
from app.ops.scope import Scope as OpsScope
from app.ops.store import Store as OpsStore
from app.partner.scope import Scope as PartnerScope
from app.partner.store import Store as PartnerStore
from app.settings import Settings
from app.web.auth import BearerGuard
from app.web.routes import Route
from app.worker.scope import Scope as WorkerScope
from app.worker.store import Store as WorkerStore

# In the order in which they are documented.
TABLE: tuple[tuple[str, tuple[Route, ...]], ...] = (
    ("partner", partner.ROUTES),
    ("worker", worker.ROUTES),
    ("admin", (*admin.ROUTES, *ops.METRICS_ROUTES)),
    ("everyone", ops.ROUTES),
)


@dataclass(frozen=True, slots=True)
class Audience:
    """`guard` is None for everyone. `scope` is what the handlers of its routes are given."""

    name: str
    guard: BearerGuard | None
    scope: object
    routes: tuple[Route, ...]


def audiences(settings: Settings, pool: Pool) -> tuple[Audience, ...]:
    admins = BearerGuard("admin", settings.admin_tokens)
    ops_scope = OpsScope(OpsStore(pool))
    coalescer = Coalescer(pool.places)
    partner_scope = PartnerScope(PartnerStore(pool, coalescer), settings)
    worker_scope = WorkerScope(WorkerStore(pool, coalescer))
    return (
        Audience("partner", BearerGuard("partner", settings.partner_tokens), partner_scope, partner.ROUTES),
        Audience("worker", BearerGuard("worker", settings.worker_tokens), worker_scope, worker.ROUTES),
        Audience("admin", admins, AdminScope(AdminStore(pool)), admin.ROUTES),
        Audience("admin", admins, ops_scope, ops.METRICS_ROUTES),
        Audience("everyone", None, ops_scope, ops.ROUTES),
    )
