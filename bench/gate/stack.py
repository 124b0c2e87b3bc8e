"""A whole RVQ on this machine for one run: PostgreSQL, API, dispatcher, receiver, each as in production."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.paths import ROOT
from bench.gate.target import TargetError, read_target
from bench.postgres import bench_cluster
from rvq.embedded import Cluster
from rvq.local.credentials import local_credentials
from rvq.local.processes import Process
from rvq.local.stack import child_environ, start_api, start_dispatcher

DATABASE = "rvq"
RECEIVER_READY_SECONDS = 20


@dataclass(frozen=True)
class Stack:
    """`environ`: what the load generator needs. Processes by component, for the CPU accounting."""

    cluster: Cluster
    api: Process
    dispatcher: Process
    receiver: Process
    environ: dict[str, str]
    logs: Path

    def pids(self) -> dict[str, int]:
        postgres = self.cluster.running
        assert postgres, "PostgreSQL is gone"
        return {
            "API": self.api.pid,
            "PostgreSQL": postgres.pid,
            "dispatcher": self.dispatcher.pid,
            "receiver": self.receiver.pid,
        }


@contextlib.contextmanager
def whole_stack(
    *, also_allowed: Sequence[str] = (), postgres: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """Everything started and ready; stopped in order at the end.

    `also_allowed`: hosts that webhooks may go to besides the receiver. `postgres`: settings of the server.
    """
    with contextlib.ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rvq-gate-")))
        cluster = stack.enter_context(bench_cluster(extra=postgres))
        cluster.create_database(DATABASE)
        api_port, receiver_port = free_ports(2)
        keys = local_credentials(logs / "settings.env")
        settings = {
            **keys,
            "APP_DATABASE_URL": cluster.url(DATABASE),
            "APP_BIND": f"127.0.0.1:{api_port}",
            "APP_WEBHOOK_ALLOWED_HOSTS": ",".join([f"http://127.0.0.1:{receiver_port}", *also_allowed]),
            "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.1/32",
            "APP_LOG_LEVEL": "warning",
        }
        environ = {
            "GATE_API_URL": f"http://127.0.0.1:{api_port}",
            "GATE_PARTNER_TOKEN": keys["APP_PARTNER_TOKEN"],
            "GATE_WORKER_TOKEN": keys["APP_WORKER_TOKEN"],
            "GATE_WEBHOOK_URL": f"http://127.0.0.1:{receiver_port}/hook",
            "GATE_WEBHOOK_SECRET": keys["APP_WEBHOOK_SECRET"],
        }
        receiver = start_receiver(environ, receiver_port, logs / "receiver.log")
        stack.callback(receiver.stop)
        api = start_api(child_environ(settings), log=logs / "api.log")
        stack.callback(api.stop)
        dispatcher = start_dispatcher(child_environ(settings), log=logs / "dispatcher.log")
        stack.callback(dispatcher.stop)
        yield Stack(cluster, api, dispatcher, receiver, environ, logs)


def start_receiver(environ: Mapping[str, str], port: int, log: Path) -> Process:
    """Returns when it answers. Raises ProcessError."""
    told = {**os.environ, **environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bench.receiver", "--port", str(port)]
    process = Process("the receiver", command, told, log=log)
    process.wait_until(lambda: _answers(environ), RECEIVER_READY_SECONDS)
    return process


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]


def _answers(environ: Mapping[str, str]) -> bool:
    try:
        read_target(environ).webhooks_in_all()
    except TargetError:
        return False
    return True
