"""The partner API: create tasks, follow them, and prove that no event was missed."""

from app.partner import create_task, deliveries, events, stats, sub_tasks, tasks, webhooks

ROUTES = (
    *create_task.routes,
    *tasks.routes,
    *sub_tasks.routes,
    *deliveries.routes,
    *events.routes,
    *webhooks.routes,
    *stats.routes,
)
