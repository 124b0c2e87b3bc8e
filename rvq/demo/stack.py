"""Everything that the demo runs: the processes of production, SDK workers, and the partner's receiver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rvq.demo.receiver import Receiver
from rvq.embedded import DURABLE, throwaway_cluster
from rvq.local.credentials import new_credentials
from rvq.local.processes import Process
from rvq.local.settings import local_settings
from rvq.local.stack import DATABASE, LocalStack

WORKERS = 4


@dataclass
class DemoStack:
    """A running RVQ, the receiver of its webhooks, and its workers."""

    rvq: LocalStack
    receiver: Receiver
    workers: list[Process]


@contextlib.contextmanager
def demo_stack(logs: Path) -> Iterator[DemoStack]:
    """Start everything, in order; stop it in reverse. Raises EmbeddedError or ProcessError."""
    keys = new_credentials()
    with (
        # Durable, as in production: the demo shows the real path.
        throwaway_cluster(settings=DURABLE) as cluster,
        contextlib.closing(Receiver(keys["APP_WEBHOOK_SECRET"])) as receiver,
    ):
        cluster.create_database(DATABASE)
        with LocalStack(local_settings(cluster.url(DATABASE), receiver.origin, **keys), logs) as rvq:
            rvq.start()
            names = [f"worker-{number}" for number in range(1, WORKERS + 1)]
            program = ("worker_sdk", "rvq.demo.worker:FileFacts")
            yield DemoStack(rvq, receiver, [rvq.start_program(name, *program) for name in names])
