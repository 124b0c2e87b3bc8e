"""The processes under test: PostgreSQL, the API, and the dispatcher with the suite's names and authority."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.db.migrations import migrate
from bench.hostile.client import Client
from bench.hostile.names import PAIRS
from bench.hostile.receivers import Listeners
from rvq.embedded import throwaway_cluster
from rvq.local.credentials import new_credentials
from rvq.local.processes import Process
from rvq.local.stack import child_environ, start_api

READY_SECONDS = 60


@dataclass
class Stage:
    """A running RVQ: `url` and `keys` to make clients with, and the dispatcher's process."""

    url: str
    keys: dict[str, str]
    dispatcher: Process

    def client(self) -> Client:
        """One for each thread."""
        return Client(self.url, self.keys["APP_PARTNER_TOKEN"], self.keys["APP_WORKER_TOKEN"])


@contextlib.contextmanager
def stage(listeners: Listeners, deadline: float, folder: Path) -> Iterator[Stage]:
    """Start everything; stop it at the end. Raises EmbeddedError or ProcessError."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(throwaway_cluster())
        cluster.ensure_database("rvq")
        migrate(cluster.url("rvq"))
        keys = new_credentials()
        environ = child_environ(
            {
                **keys,
                "APP_DATABASE_URL": cluster.url("rvq"),
                "APP_BIND": f"127.0.0.1:{_free_port()}",
                "APP_WEBHOOK_ALLOWED_HOSTS": ", ".join(listeners.origins),
                "APP_WEBHOOK_PRIVATE_HOSTS": ", ".join(PAIRS),
                "APP_LOG_FORMAT": "text",
            }
        )
        api = start_api(environ, log=folder / "api.log")
        stack.callback(api.stop)
        command = [sys.executable, "-m", "bench.hostile.dispatcher"]
        command += ["--ca-file", str(listeners.ca_file), "--deadline", str(deadline)]
        dispatcher = Process("the dispatcher", command, environ, log=folder / "dispatcher.log", notify=True)
        stack.callback(dispatcher.stop)
        dispatcher.wait_until_notified(READY_SECONDS)
        yield Stage(f"http://{environ['APP_BIND']}", keys, dispatcher)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
