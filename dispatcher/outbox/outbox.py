"""The part of a dispatcher that sends: its loops and threads, from claim to record."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from app.db import DatabaseError
from dispatcher.delivery import Lease
from dispatcher.http.sender import Sender
from dispatcher.loops import Loop
from dispatcher.metrics import Metrics
from dispatcher.outbox.claimer import Claimer
from dispatcher.outbox.deliverer import Deliverer
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.settler import Settler
from dispatcher.signals import Wait
from dispatcher.store import Store

# Seconds for recording what has ended, when stopping.
GRACE = 5.0


class Outbox:
    """Claims, sends and settles until it is stopped. The claim loop calls `on_round` after each round."""

    def __init__(
        self,
        sender: Sender,
        store: Store,
        in_flight: InFlight,
        metrics: Metrics,
        threads: int,
        on_round: Callable[[], None],
    ) -> None:
        self.lease = Lease(attempt=sender.limits.total)
        self._sender = sender
        self._in_flight = in_flight
        settler = Settler(store, in_flight, metrics)
        self._deliverer = Deliverer(sender.send, store, in_flight, settler, self.lease)
        self._claimer = Claimer(store, in_flight, self._deliverer, self.lease, threads)
        self._claim_loop = Loop("claim", self._claimer.step, on_round)
        self._settle_loop = Loop("settle", settler.step)
        settler.wake = self._settle_loop.wake
        self._claimer.wake = self._claim_loop.wake
        self._deliverer.on_end = self._claimer.wake_if_there_is_room

    def start(self) -> None:
        self._settle_loop.start()
        self._claim_loop.start()

    def is_stuck(self) -> bool:
        """Return whether a delivery has outlived its lease, because a thread is stuck."""
        return self._in_flight.oldest_seconds() >= self.lease.seconds + GRACE

    def stop(self, wait: Wait) -> bool:
        """Give back what is not begun and let the rest end; False when told to stop a second time."""
        self._claimer.stop()
        self._claim_loop.stop()
        with contextlib.suppress(DatabaseError):
            self._deliverer.give_back()
        if not self._drain(wait):
            return False
        self._settle_loop.stop()
        self._settle_loop.join(GRACE)
        self._sender.close()
        return True

    def _drain(self, wait: Wait) -> bool:
        """Wait until every attempt has ended and is recorded; False when told to stop a second time."""
        return _wait_for(
            lambda: not self._claim_loop.is_alive and self._in_flight.running == 0,
            self.lease.attempt + 2.0,
            wait,
        ) and _wait_for(lambda: self._in_flight.unsettled == 0, GRACE, wait)


def _wait_for(condition: Callable[[], bool], seconds: float, wait: Wait) -> bool:
    """Wait until it holds or the time is up; False when told to stop a second time."""
    give_up = time.monotonic() + seconds
    while not condition() and time.monotonic() < give_up:
        if wait(0.02):
            return False
    return True
