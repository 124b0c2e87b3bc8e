"""The loops of a dispatcher without threads of their own: a test calls the steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator

from app.db import Pool
from dispatcher.delivery import Delivery, Result
from dispatcher.http.attempt import Attempt
from dispatcher.metrics import Metrics
from dispatcher.outbox.claimer import Claimer, Lease
from dispatcher.outbox.deliverer import DeliveryThreads
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.settler import Settler
from dispatcher.schedule import Decision, decide
from dispatcher.store import Store

LEASE = Lease()


class Steps:
    """`claim` puts deliveries into `taken` instead of sending them; `end` is what sending would do."""

    def __init__(self, pool: Pool, threads: int = 8, lease: Lease = LEASE) -> None:
        self.pool = pool
        self.store = Store(pool)
        self.metrics = Metrics()
        self.in_flight = InFlight(threads)
        self.taken: list[Delivery] = []
        self.senders = _Taking(self.taken)
        self.claimer = Claimer(self.store, self.in_flight, self.senders, lease, threads)
        self.settling = Settler(self.store, self.in_flight, self.metrics)

    def claim(self) -> list[Delivery]:
        """What one step of the claim loop hands to the threads."""
        self.taken.clear()
        self.claimer.step()
        return list(self.taken)

    def end(
        self, delivery: Delivery, attempt: Attempt, took: float = 0.0, decision: Decision | None = None
    ) -> None:
        started = time.monotonic() - took
        result = Result(delivery, attempt, decision or decide(attempt, delivery.tries, 0.5), started)
        self.in_flight.end(result)
        self.settling.put(result)


class _Taking(DeliveryThreads):
    """Has no threads, so that everything stays where `take_back` finds it."""

    def __init__(self, taken: list[Delivery]) -> None:
        super().__init__(taken.append, 0)
        self._taken = taken

    def put(self, deliveries: Iterable[Delivery]) -> None:
        self._taken.extend(deliveries)

    def take_back(self) -> list[Delivery]:
        taken = list(self._taken)
        self._taken.clear()
        return taken


@contextlib.contextmanager
def stepping(url: str, threads: int = 8, lease: Lease = LEASE) -> Iterator[Steps]:
    pool = Pool(url, 2, "rvq-test-dispatcher")
    pool.open()
    try:
        yield Steps(pool, threads, lease)
    finally:
        pool.close()


def attempt(outcome: str = "delivered", status_code: int | None = None, answer: bytes = b"") -> Attempt:
    return Attempt(outcome=outcome, detail=outcome, status_code=status_code, answer=answer)  # type: ignore[arg-type]
