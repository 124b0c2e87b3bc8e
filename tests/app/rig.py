"""Calls on the API as a client makes them, on the real application over a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from flask.testing import FlaskClient

from app.api import Api, create_app
from app.db import Pool
from app.settings import Settings, load_settings
from app.web.schemas import ProblemDocument

PARTNER, WORKER, ADMIN = "partner-token-0123456789", "worker-token-0123456789", "admin-token-0123456789"
TOKENS = {"partner": PARTNER, "worker": WORKER, "admin": ADMIN}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SIGNING_KEY = "whsk_" + "A" * 43 + "="
HOOK = "http://127.0.0.1:9000/hook"
JSON = "application/json"
UNKNOWN_TASK = "task_7fff000000000000"


def environ(database_url: str, **changes: str | None) -> dict[str, str]:
    """Return the environment of a complete configuration; None removes a setting."""
    whole: dict[str, str | None] = {
        "APP_DATABASE_URL": database_url,
        "APP_PARTNER_TOKEN": PARTNER,
        "APP_WORKER_TOKEN": WORKER,
        "APP_ADMIN_TOKEN": ADMIN,
        "APP_WEBHOOK_SECRET": SECRET,
        "APP_WEBHOOK_SIGNING_KEY": SIGNING_KEY,
        "APP_WEBHOOK_ALLOWED_HOSTS": "http://127.0.0.1:9000, hooks.example",
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def settings_for(database_url: str, **changes: str | None) -> Settings:
    return load_settings(environ(database_url, **changes))


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def expect(self, status: int) -> Any:
        """Check the status; return the decoded body."""
        assert self.status == status, (self.status, self.body[:2000])
        return self.json if self.body else None

    def problem(self, status: int, code: str | None = None) -> ProblemDocument:
        """Check that this is a problem, complete and in its form; return it."""
        assert self.status == status, (self.status, self.body[:2000])
        assert self.headers["Content-Type"] == "application/problem+json"
        document = msgspec.json.decode(self.body, type=ProblemDocument)
        assert document.status == status
        assert document.request_id == self.headers["X-Request-Id"]
        assert code in (None, document.code)
        return document

    def pointers(self) -> list[str]:
        """Return what a 422 points at."""
        errors = self.problem(422, "invalid").errors
        assert errors
        return [fault.pointer for fault in errors]


class Caller:
    """An HTTP client; each call says as whom."""

    def __init__(self, app: Api) -> None:
        self.app = app
        self._client: FlaskClient = app.test_client()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = JSON,
    ) -> Reply:
        """Send a request. A `body` of bytes is sent as it is, anything else as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        fields = dict(headers or {})
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        if data is not None and content_type is not None:
            fields["Content-Type"] = content_type
        response = self._client.open(path, method=method, data=data, headers=fields)
        assert response.headers["X-Request-Id"]
        return Reply(response.status_code, dict(response.headers), response.get_data())

    def partner(self, method: str, path: str, body: object = None, **more: Any) -> Reply:
        return self.call(method, path, body, token=PARTNER, **more)

    def worker(self, verb: str, body: object, **more: Any) -> Reply:
        return self.call("POST", f"/v1/sub_tasks/{verb}", body, token=WORKER, **more)

    def admin(self, method: str, path: str, body: object = None, **more: Any) -> Reply:
        return self.call(method, f"/v1/admin/{path}", body, token=ADMIN, **more)

    # The usual steps of a test, each of which has to succeed.

    def create(self, *payloads: object, **fields: object) -> Any:
        """Create a task with these payloads; return it."""
        sub_tasks = [{"payload": payload} for payload in payloads or (1,)]
        return self.partner("POST", "/v1/tasks", {"sub_tasks": sub_tasks, **fields}).expect(201)

    def read(self, task_id: str) -> Any:
        return self.partner("GET", f"/v1/tasks/{task_id}").expect(200)

    def sub_tasks(self, task_id: str, query: str = "") -> Any:
        return self.partner("GET", f"/v1/tasks/{task_id}/sub_tasks{query}").expect(200)["items"]

    def claim(self, limit: int = 10, **fields: object) -> list[Any]:
        body = {"worker_id": "w1", "limit": limit, **fields}
        claimed: list[Any] = self.worker("claim", body).expect(200)["sub_tasks"]
        return claimed

    def complete(self, reports: Iterable[object]) -> list[str]:
        response = self.worker("complete", {"worker_id": "w1", "results": list(reports)}).expect(200)
        return [result["outcome"] for result in response["results"]]

    def finish(self, *payloads: object, **fields: object) -> str:
        """Create a task and complete all of it; return its id."""
        task_id: str = self.create(*payloads, **fields)["id"]
        assert set(self.complete(succeeded(claimed) for claimed in self.claim(1000))) == {"succeeded"}
        return task_id


def lease_of(claimed: Mapping[str, Any]) -> dict[str, str]:
    return {"id": claimed["id"], "lease_token": claimed["lease_token"]}


def succeeded(claimed: Mapping[str, Any], result: object = None) -> dict[str, Any]:
    return {**lease_of(claimed), "status": "succeeded", "result": result}


def failed(claimed: Mapping[str, Any], **error: object) -> dict[str, Any]:
    return {**lease_of(claimed), "status": "failed", "error": {"message": "no", **error}}


def make_caller(database_url: str, pool: Pool, **changes: str | None) -> Caller:
    return Caller(create_app(settings_for(database_url, **changes), pool))
