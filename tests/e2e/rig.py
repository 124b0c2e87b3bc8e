"""A whole RVQ for one test: its real processes on real sockets, started as production starts them."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rvq.local.credentials import new_credentials
from rvq.local.processes import Process
from rvq.local.stack import child_environ, start_api, start_dispatcher
from tests.support.concurrency import wait_until

PATIENCE = 60.0
ENDED = ("succeeded", "failed", "cancelled")
# Small budgets: several test processes share one server.
SMALL = {
    "APP_DB_POOL": "8",
    "APP_PROCESSES": "2",
    "DISPATCHER_DB_POOL": "4",
    "DISPATCHER_THREADS": "8",
    "APP_LOG_FORMAT": "text",
}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def expect(self, *statuses: int) -> Any:
        """The decoded body of an answer with one of these statuses."""
        assert self.status in statuses, (self.status, self.body[:2000])
        return self.json if self.body else None


def encoded(body: object) -> bytes | None:
    return body if isinstance(body, bytes) or body is None else json.dumps(body).encode()


class Rvq:
    """Addresses, keys and processes; `api` and `dispatcher` are those started last.

    Webhooks may go to `hosts`; `changes` are settings, "" takes one away.
    """

    def __init__(self, database_url: str, folder: Path, *hosts: str, **changes: str) -> None:
        self.folder = folder
        self.bind = f"127.0.0.1:{unused_port()}"
        self.keys = new_credentials()
        settings = {
            **SMALL,
            **self.keys,
            "APP_DATABASE_URL": database_url,
            "APP_BIND": self.bind,
            "APP_WEBHOOK_ALLOWED_HOSTS": ", ".join(f"http://{host}" for host in hosts) or "hooks.example",
            "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.0/8",
            **changes,
        }
        self.settings = {name: value for name, value in settings.items() if value}
        self.api: Process
        self.dispatcher: Process
        self._started: list[Process] = []
        self._count = 0

    @property
    def url(self) -> str:
        return f"http://{self.bind}"

    def log(self, name: str) -> Path:
        """A new file for each process, so that a restarted one does not hide what the first one said."""
        self._count += 1
        return self.folder / f"{self._count:03}-{name}.log"

    def start_api(self, **changes: str) -> Process:
        environ = child_environ({**self.settings, **changes})
        self.api = self._keep(start_api(environ, log=self.log("api")))
        return self.api

    def kill_api(self) -> None:
        """All its processes at once, and wait until the last of them has let go of the port."""
        self.api.kill()
        wait_until(lambda: is_free(self.bind), "the API's port is free", PATIENCE)

    def start_dispatcher(self, **changes: str) -> Process:
        environ = child_environ({**self.settings, **changes})
        self.dispatcher = self._keep(start_dispatcher(environ, log=self.log("dispatcher")))
        return self.dispatcher

    def start_worker(self, handler: str, *options: str) -> Process:
        """`handler` is the name of a class in tests/e2e/handlers.py."""
        return self.start_program("worker_sdk", f"tests.e2e.handlers:{handler}", *options)

    def start_program(self, module: str, *arguments: str) -> Process:
        """A worker's process: it knows address, key and folder, and nothing else of RVQ."""
        told = {
            "RVQ_URL": self.url,
            "RVQ_WORKER_TOKEN": self.keys["APP_WORKER_TOKEN"],
            "E2E_FOLDER": str(self.folder),
        }
        command = [sys.executable, "-m", module, *arguments]
        return self._keep(Process(module, command, child_environ(told), log=self.log("worker")))

    def stop(self) -> None:
        """The youngest first: workers, then what they talk to."""
        for process in reversed(self._started):
            process.stop(20)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        audience: str = "PARTNER",
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Answer:
        """One request on a connection of its own; bytes are sent as they are, anything else as JSON."""
        connection = http.client.HTTPConnection(self.bind, timeout=timeout)
        with contextlib.closing(connection):
            return ask(connection, method, path, body, self.headers(audience, headers))

    def headers(self, audience: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        token = self.keys[f"APP_{audience}_TOKEN"]
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

    def pages(self, path: str, limit: int = 1000) -> list[Any]:
        """All items behind a listing."""
        items: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            more = f"&cursor={cursor}" if cursor else ""
            page = self.call("GET", f"{path}?limit={limit}{more}").expect(200)
            items += page["items"]
            cursor = page["next_cursor"] if page["items"] else None
        return items

    def wait_ended(self, task_id: str, deadline: float = PATIENCE) -> Any:
        wait_until(lambda: self.task(task_id)["status"] in ENDED, f"{task_id} has ended", deadline)
        return self.task(task_id)

    def wait_file(self, name: str) -> Path:
        """A file that a handler makes to tell something."""
        file = self.folder / name
        wait_until(file.exists, f"the handler makes {name}", PATIENCE)
        return file

    def _keep(self, process: Process) -> Process:
        self._started.append(process)
        return process


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: object, headers: Mapping[str, str]
) -> Answer:
    connection.request(method, path, encoded(body), dict(headers))
    response = connection.getresponse()
    return Answer(response.status, dict(response.getheaders()), response.read())


def is_free(bind: str) -> bool:
    host, _, port = bind.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind((host, int(port)))
            return True
    return False


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(database_url: str, *hosts: str, **changes: str) -> Iterator[Rvq]:
    """With an API, not yet a dispatcher; everything is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="rvq-e2e-") as folder:
        rvq = Rvq(database_url, Path(folder), *hosts, **changes)
        try:
            rvq.start_api()
            yield rvq
        except BaseException:
            for log in sorted(rvq.folder.glob("*.log")):
                lines = log.read_text(errors="replace").splitlines()[-25:]
                print(f"--- {log.name}", *lines, sep="\n")
            raise
        finally:
            rvq.stop()
