"""RVQ as it is run: Gunicorn, the dispatcher, a receiver that verifies signatures, clients over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.gate.stack import measured_stack, target_environ
from bench.peers.crew import Crew
from bench.peers.peer import WORKERS, driver_environ
from bench.peers.system import Start
from rvq.embedded import Cluster
from rvq.local.stack import python
from rvq.ports import free_port

CLIENT = "bench.peers.drivers.rvq_driver"
PLAIN_WORKER = (CLIENT, "worker")
SDK_WORKER = ("bench.peers.drivers.rvq_sdk_worker",)


def rvq(worker: Sequence[str]) -> Start:
    """Return what starts RVQ with workers that run this module, with these arguments."""

    @contextlib.contextmanager
    def start(cluster: Cluster, database: str, folder: Path) -> Iterator[Crew]:
        port = free_port()
        with measured_stack(cluster.url(database), port, folder) as stack:
            environ = {
                **driver_environ(),
                **target_environ(stack, port),
                "RVQ_URL": stack.url,
                "RVQ_WORKER_TOKEN": stack.settings["APP_WORKER_TOKEN"],
            }
            commands: dict[str, Sequence[str]] = {
                "receiver": python(CLIENT, "receive"),
                "producer": python(CLIENT, "produce"),
            }
            commands |= {f"worker-{number}": python(*worker) for number in range(WORKERS)}
            with Crew("rvq", commands, environ, folder) as crew:
                yield crew

    return start
