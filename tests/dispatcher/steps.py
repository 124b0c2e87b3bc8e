"""The loops of a dispatcher without threads of their own: a test calls the steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from app.db import Pool
from dispatcher.delivery import Delivery, Lease, Result
from dispatcher.http.attempt import Attempt
from dispatcher.maintenance import STEPS, StepRunner
from dispatcher.metrics import Metrics
from dispatcher.outbox.claimer import Claimer
from dispatcher.outbox.deliverer import Deliverer
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.settler import Settler
from dispatcher.schedule import Decision, decide
from dispatcher.store import Store

LEASE = Lease()
RETENTION_DAYS = 30


class Steps:
    """`claim` returns deliveries instead of having them sent; `end` is what sending would do."""

    def __init__(self, pool: Pool, threads: int = 8, lease: Lease = LEASE) -> None:
        self.pool = pool
        self.store = Store(pool)
        self.metrics = Metrics()
        self.in_flight = InFlight(threads)
        self.settler = Settler(self.store, self.in_flight, self.metrics)
        self.deliverer = _Collecting(self.store, self.in_flight, self.settler, lease)
        self.claimer = Claimer(self.store, self.in_flight, self.deliverer, lease, threads)

    def claim(self) -> list[Delivery]:
        """What one step of the claim loop hands to the threads."""
        self.deliverer.taken.clear()
        self.claimer.step()
        return list(self.deliverer.taken)

    def end(
        self, delivery: Delivery, attempt: Attempt, took: float = 0.0, decision: Decision | None = None
    ) -> None:
        started = time.monotonic() - took
        result = Result(delivery, attempt, decision or decide(attempt, delivery.tries, 0.5), started)
        self.in_flight.end(result)
        self.settler.put(result)

    def maintain(self, name: str) -> float | None:
        """Run a maintenance step: how much all runs of it did, None while only another dispatcher ran it."""
        self.runner(name).step()
        return self.metrics.registry.get_sample_value("rvq_maintenance_done_total", {"step": name})

    def runner(self, name: str, **changes: Any) -> StepRunner:
        """A runner of the step as the table has it, but for these changes; it begins at once."""
        (step,) = (step for step in STEPS if step.name == name)
        step = replace(step, at_start=True, **changes)
        return StepRunner(step, self.store, self.metrics, RETENTION_DAYS)


class _Collecting(Deliverer):
    """Has no threads: what is put in stays in `taken`."""

    def __init__(self, store: Store, in_flight: InFlight, settler: Settler, lease: Lease) -> None:
        super().__init__(_send_nothing, store, in_flight, settler, lease)
        self.taken: list[Delivery] = []

    def put(self, deliveries: Sequence[Delivery]) -> None:
        self.taken.extend(deliveries)

    def give_back(self) -> None:
        self.release(self.taken)


def _send_nothing(event_id: str, url: str, body: bytes) -> Attempt:
    raise AssertionError("nothing is sent step by step")


@contextlib.contextmanager
def stepping(url: str, threads: int = 8, lease: Lease = LEASE) -> Iterator[Steps]:
    pool = Pool(url, 2, "rvq-test-dispatcher")
    pool.open()
    try:
        yield Steps(pool, threads, lease)
    finally:
        pool.close()


def attempt(outcome: str = "delivered", status_code: int | None = None, response: bytes = b"") -> Attempt:
    return Attempt(outcome=outcome, detail=outcome, status_code=status_code, response_body=response)  # type: ignore[arg-type]
