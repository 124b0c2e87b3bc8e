"""The worker's loops side by side for tests that call their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from worker_sdk import Answer, Handler, Options, SubTask, Unavailable
from worker_sdk._claimer import Claimer
from worker_sdk._client import Client
from worker_sdk._completer import Completer
from worker_sdk._heartbeat import Heartbeat, Watch
from worker_sdk._leases import Leases
from worker_sdk._outcome import Outcome
from worker_sdk._prefetch import Prefetch
from worker_sdk.testing import FakeRVQ


class Echo(Handler):
    def handle(self, sub_task: SubTask) -> Any:
        return sub_task.payload


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Line:
    """A transport whose wire can be cut, or whose far end answers as the test says."""

    def __init__(self, rvq: FakeRVQ) -> None:
        self.rvq = rvq
        self.cut = False
        self.answers: list[Answer] = []
        self.judge: Callable[[bytes], Answer | None] = lambda _: None
        """Responds in RVQ's place unless it returns None."""
        self.bodies: list[bytes] = []

    def post(self, path: str, body: bytes) -> Answer:
        self.bodies.append(body)
        if self.cut:
            raise Unavailable("the wire is cut")
        if self.answers:
            return self.answers.pop(0)
        return self.judge(body) or self.rvq.post(path, body)

    def close(self) -> None: ...


class Loops:
    def __init__(self, **options: Any) -> None:
        self.build(**options)

    def build(self, **options: Any) -> None:
        self.clock = Clock()
        self.rvq = FakeRVQ(self.clock)
        self.line = Line(self.rvq)
        self.client = Client(self.line, "worker-1")
        self.options = Options.of(Echo, **options)
        self.leases = Leases(self.options.timeout_seconds, self.clock)
        self.prefetch = Prefetch(self.options, self.leases, self.clock)
        self.completer = Completer(self.client, self.leases, clock=self.clock, linger_seconds=0.0)
        self.fatal: list[str] = []
        self.claimer = Claimer(
            self.options,
            self.client,
            self.leases,
            self.completer,
            self.prefetch,
            on_fatal=self.fatal.append,
            clock=self.clock,
        )
        self.heartbeat = Heartbeat(self.client, self.leases, self.options.lease_seconds, self.clock)
        self.watch = Watch(self.leases, self.options.lease_seconds, self.clock)

    def submit(self, count: int) -> list[str]:
        return [self.rvq.submit({"n": number}) for number in range(count)]

    def run_ready(self, document: bytes = b"1") -> int:
        """Handle every ready sub_task and put its outcome. Return how many there were."""
        count = 0
        while lease := self.leases.take(wait=False):
            self.completer.put(lease, Outcome(True, document))
            count += 1
        return count

    def statuses(self) -> list[str]:
        return [sub_task.status for sub_task in self.rvq.sub_tasks()]
