"""Health, readiness and the API's description, for everyone; metrics, for admins."""

from app.ops import documents, health

ROUTES = (*health.ROUTES, *documents.ROUTES)
METRICS_ROUTES = health.METRICS_ROUTES
