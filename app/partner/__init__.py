"""The partner API: create tasks, follow them, and prove that no event was missed."""

from app.partner import create_task, deliveries, events, stats, sub_tasks, tasks, webhooks

ROUTES = (
    *create_task.ROUTES,
    *tasks.ROUTES,
    *sub_tasks.ROUTES,
    *deliveries.ROUTES,
    *events.ROUTES,
    *webhooks.ROUTES,
    *stats.ROUTES,
)
