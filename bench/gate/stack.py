"""A whole RVQ on this machine for one run: PostgreSQL, API, dispatcher, receiver, each as in production."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.paths import ROOT
from bench.gate.target import TargetError, read_target
from bench.postgres import bench_cluster, server_pid
from rvq.embedded import Cluster
from rvq.local.credentials import new_credentials
from rvq.local.processes import Process
from rvq.local.settings import local_settings
from rvq.local.stack import DATABASE, LocalStack
from rvq.ports import free_port

RECEIVER_READY_SECONDS = 20


@dataclass(frozen=True)
class GateStack:
    """A running RVQ with its receiver; `environ` is what the load generator needs."""

    cluster: Cluster
    rvq: LocalStack
    receiver: Process
    environ: dict[str, str]

    def pids(self) -> dict[str, int]:
        """Return the root process of each component, for the accounting of CPU."""
        return {
            "API": self.rvq.api.pid,
            "PostgreSQL": server_pid(self.cluster),
            "dispatcher": self.rvq.dispatcher.pid,
            "receiver": self.receiver.pid,
        }


@contextlib.contextmanager
def whole_stack(
    *, also_allowed: Sequence[str] = (), postgres: Mapping[str, str] | None = None
) -> Iterator[GateStack]:
    """Start everything and wait until it is ready; stop it in order at the end.

    `also_allowed`: hosts that webhooks may go to besides the receiver. `postgres`: settings of the server.
    """
    with tempfile.TemporaryDirectory(prefix="rvq-gate-") as logs, bench_cluster(extra=postgres) as cluster:
        cluster.create_database(DATABASE)
        port = free_port()
        with measured_stack(cluster.url(DATABASE), port, Path(logs), *also_allowed) as rvq:
            environ = target_environ(rvq, port)
            program = ("bench.receiver", "--port", str(port))
            receiver = rvq.start_program("receiver", *program, PYTHONPATH=str(ROOT), **environ)
            receiver.wait_until(lambda: _responds(environ), RECEIVER_READY_SECONDS)
            yield GateStack(cluster, rvq, receiver, environ)


@contextlib.contextmanager
def measured_stack(
    database_url: str, receiver_port: int, logs: Path, *also_allowed: str
) -> Iterator[LocalStack]:
    """Start API and dispatcher with logs that cost no CPU, and with keys of their own."""
    allowed = (f"http://127.0.0.1:{receiver_port}", *also_allowed)
    settings = local_settings(database_url, *allowed, APP_LOG_LEVEL="warning", **new_credentials())
    with LocalStack(settings, logs) as rvq:
        rvq.start()
        yield rvq


def target_environ(rvq: LocalStack, receiver_port: int) -> dict[str, str]:
    """Return the environment that `read_target` and bench/receiver.py read."""
    return {
        "GATE_API_URL": rvq.url,
        "GATE_PARTNER_TOKEN": rvq.settings["APP_PARTNER_TOKEN"],
        "GATE_WORKER_TOKEN": rvq.settings["APP_WORKER_TOKEN"],
        "GATE_WEBHOOK_URL": f"http://127.0.0.1:{receiver_port}/hook",
        "GATE_WEBHOOK_SECRET": rvq.settings["APP_WEBHOOK_SECRET"],
    }


def _responds(environ: Mapping[str, str]) -> bool:
    try:
        read_target(environ).webhooks_in_all()
    except TargetError:
        return False
    return True
