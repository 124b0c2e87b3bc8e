"""A partner and a worker in one: makes tasks that end, and asks what became of their webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import requests

from rvq.errors import CommandError

TIMEOUT_SECONDS = 30
MOST_AT_ONCE = 1000


class Client:
    """Speaks to the API at `url`. Any answer but a good one is a CommandError."""

    def __init__(self, url: str, partner_token: str, worker_token: str) -> None:
        self._url = url
        self._partner = {"Authorization": f"Bearer {partner_token}"}
        self._worker = {"Authorization": f"Bearer {worker_token}"}
        self._session = requests.Session()
        self._session.trust_env = False

    def finish(self, urls: Iterable[str], queue: str) -> list[str]:
        """A task of one sub_task for each URL, all of them succeeded; their ids. The queue is ours alone."""
        bodies = [{"queue": queue, "webhook_url": url, "sub_tasks": [{"payload": None}]} for url in urls]
        made = [str(self._call("POST", "/v1/tasks", self._partner, body)["id"]) for body in bodies]
        left = len(made)
        while left:
            left -= self._work(queue)
        return made

    def deliveries(self, task_id: str) -> list[dict[str, Any]]:
        return list(self._call("GET", f"/v1/tasks/{task_id}/deliveries", self._partner)["items"])

    def _work(self, queue: str) -> int:
        """Claim what there is and report success; how many."""
        claim = {"worker_id": "hostile", "limit": MOST_AT_ONCE, "queues": [queue]}
        claimed = self._call("POST", "/v1/sub_tasks/claim", self._worker, claim)["sub_tasks"]
        results = [
            {"id": c["id"], "lease_token": c["lease_token"], "status": "succeeded", "result": None}
            for c in claimed
        ]
        if results:
            body = {"worker_id": "hostile", "results": results}
            self._call("POST", "/v1/sub_tasks/complete", self._worker, body)
        return len(results)

    def _call(self, method: str, path: str, token: dict[str, str], body: object = None) -> dict[str, Any]:
        answer = self._session.request(
            method,
            self._url + path,
            data=None if body is None else json.dumps(body),
            headers={**token, "Content-Type": "application/json"},
            timeout=TIMEOUT_SECONDS,
        )
        if not answer.ok:
            raise CommandError(f"{method} {path} answered {answer.status_code}: {answer.text[:500]}")
        return dict(answer.json())
