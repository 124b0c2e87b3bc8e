"""A whole RVQ for one test: its real processes on real sockets, started as production starts them."""

from __future__ import annotations

import contextlib
import http.client
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rvq.local.credentials import new_credentials
from rvq.local.processes import Process
from rvq.local.settings import local_settings
from rvq.local.stack import LocalStack
from rvq.ports import why_taken
from tests.support.concurrency import wait_until

PATIENCE = 60.0
ENDED = ("succeeded", "failed", "cancelled")
# Small budgets: several test processes share one server.
SMALL = {"APP_DB_POOL": "8", "APP_PROCESSES": "2", "DISPATCHER_DB_POOL": "4", "DISPATCHER_THREADS": "8"}


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def expect(self, *statuses: int) -> Any:
        """Return the decoded body of a response with one of these statuses."""
        assert self.status in statuses, (self.status, self.body[:2000])
        return self.json if self.body else None


def encoded(body: object) -> bytes | None:
    return body if isinstance(body, bytes) or body is None else json.dumps(body).encode()


class Rvq(LocalStack):
    """A stack with small budgets, and its API called as HTTP, whatever it responds.

    Webhooks may go to `hosts`; `changes` are settings, "" takes one away.
    """

    def __init__(self, database_url: str, folder: Path, *hosts: str, **changes: str) -> None:
        origins = [f"http://{host}" for host in hosts]
        settings = local_settings(database_url, *origins, **{**SMALL, **new_credentials(), **changes})
        super().__init__(settings, folder)

    def kill_api(self) -> None:
        """All its processes at once, and wait until the last of them has let go of the port."""
        self.api.kill()
        host, _, port = self.bind.rpartition(":")
        wait_until(lambda: not why_taken(host, int(port)), "the API's port is free", PATIENCE)

    def start_worker(self, handler: str, *options: str) -> Process:
        """`handler` is the name of a class in tests/e2e/handlers.py."""
        return self.run_worker("worker_sdk", f"tests.e2e.handlers:{handler}", *options)

    def run_worker(self, *program: str) -> Process:
        """Start a worker's process, with a log of its own."""
        return self.start_program(f"worker-{len(self.processes)}", *program, E2E_FOLDER=str(self.folder))

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        audience: str = "PARTNER",
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Response:
        """One request on a connection of its own; bytes are sent as they are, anything else as JSON."""
        connection = http.client.HTTPConnection(self.bind, timeout=timeout)
        with contextlib.closing(connection):
            return ask(connection, method, path, body, self.headers(audience, headers))

    def headers(self, audience: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        token = self.settings[f"APP_{audience}_TOKEN"]
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **(more or {})}

    def worker(self, verb: str, body: object) -> Any:
        return self.call("POST", f"/v1/sub_tasks/{verb}", body, audience="WORKER").expect(200)

    def admin(self, method: str, path: str, body: object = None) -> Any:
        return self.call(method, f"/v1/admin/{path}", body, audience="ADMIN").expect(200)

    def create(self, payloads: Sequence[object], **fields: object) -> str:
        """A task in the queue of the handlers; its id."""
        body = {"queue": "e2e", "sub_tasks": [{"payload": payload} for payload in payloads], **fields}
        return str(self.call("POST", "/v1/tasks", body).expect(201)["id"])

    def task(self, task_id: str) -> Any:
        return self.call("GET", f"/v1/tasks/{task_id}").expect(200)

    def sub_tasks(self, task_id: str) -> list[Any]:
        return self.pages(f"/v1/tasks/{task_id}/sub_tasks")

    def pages(self, path: str) -> list[Any]:
        """Return all items behind a listing."""
        return list(self.client("partner").pages(*path.removeprefix("/v1/").split("/")))

    def wait_ended(self, task_id: str, deadline: float = PATIENCE) -> Any:
        wait_until(lambda: self.task(task_id)["status"] in ENDED, f"{task_id} has ended", deadline)
        return self.task(task_id)

    def wait_file(self, name: str) -> Path:
        """A file that a handler makes to tell something."""
        file = self.folder / name
        wait_until(file.exists, f"the handler makes {name}", PATIENCE)
        return file


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: object, headers: Mapping[str, str]
) -> Response:
    connection.request(method, path, encoded(body), dict(headers))
    response = connection.getresponse()
    return Response(response.status, dict(response.getheaders()), response.read())


@contextlib.contextmanager
def running(database_url: str, *hosts: str, **changes: str) -> Iterator[Rvq]:
    """Run an API, not yet a dispatcher; everything is stopped at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="rvq-e2e-") as folder,
        Rvq(database_url, Path(folder), *hosts, **changes) as rvq,
    ):
        try:
            rvq.start_api()
            yield rvq
        except BaseException:
            for log in sorted(rvq.folder.glob("*.log")):
                lines = log.read_text(errors="replace").splitlines()[-25:]
                print(f"--- {log.name}", *lines, sep="\n")
            raise
