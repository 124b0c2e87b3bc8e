"""The admin API: retry and cancel tasks, pause queues, send deliveries again, audit counters, reset."""

from app.admin import audit, deliveries, queues, tasks

ROUTES = (*tasks.ROUTES, *queues.ROUTES, *deliveries.ROUTES, *audit.ROUTES)
