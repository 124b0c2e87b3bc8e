"""Tasks that succeed as soon as they are created, so that their webhooks are due."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rvq.local.stack import LocalStack

MOST_AT_ONCE = 1000


class Tasks:
    """Partner and worker in one; use one for each thread. The methods raise CommandError."""

    def __init__(self, rvq: LocalStack) -> None:
        self._partner = rvq.client("partner")
        self._worker = rvq.client("worker")

    def finish(self, urls: Iterable[str], queue: str) -> list[str]:
        """Create a task of one sub_task for each URL and let all succeed; return their ids.

        Nobody else uses the queue.
        """
        bodies = [{"queue": queue, "webhook_url": url, "sub_tasks": [{"payload": None}]} for url in urls]
        created = [str(self._partner.post("tasks", body=body)["id"]) for body in bodies]
        left = len(created)
        while left:
            left -= self._work(queue)
        return created

    def deliveries(self, task_id: str) -> list[Any]:
        return list(self._partner.pages("tasks", task_id, "deliveries"))

    def _work(self, queue: str) -> int:
        """Claim what there is and report success; return how many."""
        claim = {"worker_id": "hostile", "limit": MOST_AT_ONCE, "queues": [queue]}
        claimed = self._worker.post("sub_tasks", "claim", body=claim)["sub_tasks"]
        results = [
            {"id": one["id"], "lease_token": one["lease_token"], "status": "succeeded", "result": None}
            for one in claimed
        ]
        if results:
            self._worker.post("sub_tasks", "complete", body={"worker_id": "hostile", "results": results})
        return len(results)
