"""Everything that the demo runs: the processes of production, SDK workers, and the partner's receiver."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.db.migrations import migrate
from rvq.demo.receiver import Receiver
from rvq.embedded import throwaway_cluster
from rvq.local.credentials import new_credentials
from rvq.local.processes import Process
from rvq.local.stack import child_environ, start_api, start_dispatcher

WORKERS = 4
# Durable, as in production: the demo shows the real path.
DURABLE = {"fsync": "on", "full_page_writes": "on"}


@dataclass
class Stage:
    """A running RVQ: where it answers, with which keys, and its workers by name."""

    url: str
    partner_token: str
    receiver: Receiver
    workers: dict[str, Process]


@contextlib.contextmanager
def stage(logs: Path) -> Iterator[Stage]:
    """Start everything, in order; stop it in reverse. Raises EmbeddedError or ProcessError."""
    with contextlib.ExitStack() as stack:
        keys = new_credentials()
        receiver = Receiver(keys["APP_WEBHOOK_SECRET"])
        stack.callback(receiver.close)
        cluster = stack.enter_context(throwaway_cluster(settings=DURABLE))
        cluster.ensure_database("rvq")
        migrate(cluster.url("rvq"))
        settings = {
            **keys,
            "APP_DATABASE_URL": cluster.url("rvq"),
            "APP_BIND": f"127.0.0.1:{_free_port()}",
            "APP_WEBHOOK_ALLOWED_HOSTS": receiver.origin,
            "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.1/32",
        }
        environ = child_environ(settings)
        for start, name in ((start_api, "api"), (start_dispatcher, "dispatcher")):
            stack.callback(start(environ, log=logs / f"{name}.log").stop)
        url = f"http://{settings['APP_BIND']}"
        workers = {f"worker-{n}": _start_worker(n, url, keys, logs) for n in range(1, WORKERS + 1)}
        for worker in workers.values():
            stack.callback(worker.stop)
        yield Stage(url, keys["APP_PARTNER_TOKEN"], receiver, workers)


def _start_worker(number: int, url: str, keys: Mapping[str, str], logs: Path) -> Process:
    environ = child_environ({"RVQ_URL": url, "RVQ_WORKER_TOKEN": keys["APP_WORKER_TOKEN"]})
    command = [sys.executable, "-m", "worker_sdk", "rvq.demo.worker:FileFacts"]
    return Process(f"worker {number}", command, environ, log=logs / f"worker-{number}.log")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
