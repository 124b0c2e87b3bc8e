"""For everyone: health, readiness, the API's description. Metrics are for admins."""

from app.ops import documents, health

ROUTES = (*health.ROUTES, *documents.ROUTES)
METRICS_ROUTES = health.METRICS_ROUTES
