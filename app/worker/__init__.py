"""The worker API: claim sub_tasks, keep their leases, report how they ended."""

from app.worker import claim, complete, leases

ROUTES = (*claim.routes, *complete.routes, *leases.routes)
