"""What the demo's partner does over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import requests

from rvq.errors import CommandError

TIMEOUT_SECONDS = 30
PAGE = 1000


class Partner:
    """A client of the partner API."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {token}"

    def create(self, files: Iterable[Path], webhook_url: str) -> str:
        """One task, a sub_task for each file; its id."""
        body = {
            "queue": "files",
            "webhook_url": webhook_url,
            "metadata": {"demo": "the standard library"},
            "sub_tasks": [{"payload": {"path": str(path)}} for path in files],
        }
        return str(self._call("POST", "/v1/tasks", body)["id"])

    def task(self, task_id: str) -> dict[str, Any]:
        return self._call("GET", f"/v1/tasks/{task_id}")

    def sub_tasks(self, task_id: str, status: str | None = None) -> Iterator[dict[str, Any]]:
        """All of them, in order, a page at a time."""
        cursor: str | None = ""
        while cursor is not None:
            query = (
                f"limit={PAGE}"
                + (f"&status={status}" if status else "")
                + (f"&cursor={cursor}" if cursor else "")
            )
            page = self._call("GET", f"/v1/tasks/{task_id}/sub_tasks?{query}")
            yield from page["items"]
            cursor = page["next_cursor"]

    def deliveries(self, task_id: str) -> list[dict[str, Any]]:
        return list(self._call("GET", f"/v1/tasks/{task_id}/deliveries")["items"])

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body)
        answer = self._session.request(
            method,
            self._url + path,
            data=content,
            headers={"Content-Type": "application/json"} if content else None,
            timeout=TIMEOUT_SECONDS,
        )
        if not answer.ok:
            raise CommandError(f"{method} {path} answered {answer.status_code}: {answer.text[:500]}")
        return dict(answer.json())
