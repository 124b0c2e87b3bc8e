"""RVQ as it is run: Gunicorn, the dispatcher, a receiver that verifies signatures, clients over HTTP."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.gate.stack import free_ports
from bench.peers.crew import Crew
from bench.peers.peer import WORKERS, driver_environ
from bench.peers.system import Start
from rvq.embedded import Cluster
from rvq.local.credentials import local_credentials
from rvq.local.stack import child_environ, start_api, start_dispatcher

CLIENT = "bench.peers.drivers.rvq_driver"
PLAIN_WORKER = (CLIENT, "worker")
SDK_WORKER = ("bench.peers.drivers.rvq_sdk_worker",)


def rvq(worker: Sequence[str]) -> Start:
    """`worker`: the module that each worker runs, and its arguments."""

    @contextlib.contextmanager
    def start(cluster: Cluster, database: str, folder: Path) -> Iterator[Crew]:
        settings, environ = _settings(cluster.url(database), folder)
        with contextlib.ExitStack() as stack:
            for run, name in ((start_api, "api"), (start_dispatcher, "dispatcher")):
                process = run(child_environ(settings), log=folder / f"{name}.log")
                stack.callback(process.stop)
            commands: dict[str, Sequence[str]] = {
                "receiver": (CLIENT, "receive"),
                "producer": (CLIENT, "produce"),
            }
            commands |= {f"worker-{number}": worker for number in range(WORKERS)}
            python = {name: (sys.executable, "-m", *command) for name, command in commands.items()}
            yield stack.enter_context(Crew("rvq", python, environ, folder))

    return start


def _settings(url: str, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Of RVQ, and the environment of the drivers."""
    api_port, receiver_port = free_ports(2)
    keys = local_credentials(folder / "settings.env")
    settings = {
        **keys,
        "APP_DATABASE_URL": url,
        "APP_BIND": f"127.0.0.1:{api_port}",
        "APP_WEBHOOK_ALLOWED_HOSTS": f"http://127.0.0.1:{receiver_port}",
        "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.1/32",
        "APP_LOG_LEVEL": "warning",
    }
    return settings, {**driver_environ(), **_where(keys, api_port, receiver_port)}


def _where(keys: Mapping[str, str], api_port: int, receiver_port: int) -> dict[str, str]:
    api = f"http://127.0.0.1:{api_port}"
    return {
        "GATE_API_URL": api,
        "GATE_PARTNER_TOKEN": keys["APP_PARTNER_TOKEN"],
        "GATE_WORKER_TOKEN": keys["APP_WORKER_TOKEN"],
        "GATE_WEBHOOK_URL": f"http://127.0.0.1:{receiver_port}/hook",
        "GATE_WEBHOOK_SECRET": keys["APP_WEBHOOK_SECRET"],
        "RVQ_URL": api,
        "RVQ_WORKER_TOKEN": keys["APP_WORKER_TOKEN"],
    }
