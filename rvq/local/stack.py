"""The processes of a whole RVQ on this machine, exactly as production runs them."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from app.paths import gunicorn_config
from rvq.client import Client
from rvq.local.processes import Process, ProcessError
from rvq.local.settings import DEFAULT_BIND, child_environ
from rvq.ports import why_taken

DATABASE = "rvq"
READY_SECONDS = 60
# glibc's malloc, told before the program starts: one heap, no caches of threads. One interpreter's threads
# gain nothing from either, and a hundred caches keep what each once needed and pin the pages it lies on.
API_MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"}


class LocalStack:
    """A running RVQ. The end of its block stops all processes, the youngest first.

    `settings` are those of the API and the dispatcher, keys included. Each process writes to NAME.log in
    `folder` and keeps `pass_fds` open. `api` and `dispatcher` are the ones that were started last.
    The methods raise ProcessError, with the end of the log, when a process does not get ready.
    """

    api: Process
    dispatcher: Process

    def __init__(self, settings: Mapping[str, str], folder: Path, *, pass_fds: Sequence[int] = ()) -> None:
        self.settings = dict(settings)
        self.folder = folder
        self.processes: list[Process] = []
        self._pass_fds = pass_fds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.stop()

    @property
    def bind(self) -> str:
        return self.settings.get("APP_BIND", DEFAULT_BIND)

    @property
    def url(self) -> str:
        return f"http://{self.bind}"

    def client(self, audience: str) -> Client:
        """Return a client with the key of `partner`, `worker` or `admin`; use one for each thread."""
        return Client(self.url, self.settings[f"APP_{audience.upper()}_TOKEN"])

    def start(self) -> None:
        """Start the API, which migrates the database, and then the dispatcher."""
        self.start_api()
        self.start_dispatcher()

    def start_api(self, **changes: str) -> Process:
        """Start the API and return when it takes traffic; `changes` are settings of this process alone."""
        # Another program's responses could be taken for ours.
        if taken := why_taken(*_address(self.bind)):
            raise ProcessError(f"the API can't listen on {self.bind}: {taken}")
        self.api = launch_api({**self.settings, **changes}, self._log("api"), self._pass_fds)
        self.processes.append(self.api)
        self.api.wait_until(lambda: is_ready(self.bind), READY_SECONDS)
        return self.api

    def start_dispatcher(self, *program: str, **changes: str) -> Process:
        """Start the dispatcher, or `python -m PROGRAM` instead; return when it says that it is ready."""
        self.dispatcher = launch_dispatcher(
            {**self.settings, **changes}, self._log("dispatcher"), self._pass_fds, *program
        )
        self.processes.append(self.dispatcher)
        self.dispatcher.wait_until_notified(READY_SECONDS)
        return self.dispatcher

    def start_program(self, name: str, *program: str, **told: str) -> Process:
        """Start `python -m PROGRAM` beside RVQ and return at once.

        Its environment has no settings of RVQ, but the API's address, the worker's key, and `told`.
        """
        address = {"RVQ_URL": self.url, "RVQ_WORKER_TOKEN": self.settings["APP_WORKER_TOKEN"]}
        command, environ = python(*program), child_environ({**address, **told})
        process = Process(name, command, environ, log=self._log(name), pass_fds=self._pass_fds)
        self.processes.append(process)
        return process

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def launch_api(settings: Mapping[str, str], log: Path, pass_fds: Sequence[int] = ()) -> Process:
    """Start Gunicorn with the API; return at once."""
    command = python("gunicorn", "-c", str(gunicorn_config()), "app.wsgi:app")
    environ = child_environ({**settings, **API_MALLOC})
    return Process("the API", command, environ, log=log, pass_fds=pass_fds)


def launch_dispatcher(
    settings: Mapping[str, str], log: Path, pass_fds: Sequence[int] = (), *program: str, notify: bool = True
) -> Process:
    """Start the dispatcher, or `python -m PROGRAM` instead; return at once."""
    command = python(*(program or ("dispatcher",)))
    environ = child_environ(settings)
    return Process("the dispatcher", command, environ, log=log, notify=notify, pass_fds=pass_fds)


def python(*program: str) -> list[str]:
    """Return the command that runs a module, with its arguments, under this interpreter."""
    return [sys.executable, "-m", *program]


def is_ready(bind: str, path: str = "/readyz") -> bool:
    """Return whether the API at `host:port` responds to GET `path` with 200."""
    connection = http.client.HTTPConnection(*_address(bind), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _address(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    if not port.isdigit():
        raise ProcessError(f"a local stack listens on host:port, not on {bind}")
    return host.strip("[]"), int(port)
