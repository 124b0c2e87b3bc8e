"""The admin API: retry and cancel tasks, pause queues, send deliveries again, audit counters, reset."""

from app.admin import audit, deliveries, queues, tasks

ROUTES = (*tasks.routes, *queues.routes, *deliveries.routes, *audit.routes)
