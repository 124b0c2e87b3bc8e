"""The admin API: the dangerous things."""

from app.admin import audit, deliveries, queues, tasks

ROUTES = (*tasks.ROUTES, *queues.ROUTES, *deliveries.ROUTES, *audit.ROUTES)
