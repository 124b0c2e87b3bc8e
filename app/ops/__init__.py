"""Health, readiness and the API's description, for everyone; metrics, for admins."""

from app.ops import documents, health

ROUTES = (*health.routes, *documents.routes)
METRICS_ROUTES = (*health.metrics_routes,)
