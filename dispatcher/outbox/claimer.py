"""The claim loop: takes as many due deliveries as there is room for, and hands them to the threads.

After a claim that took all the room it waits for room, else as outbox/pacing.py says. Its rounds are what the
watchdog sees.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from dispatcher.delivery import Delivery
from dispatcher.outbox.deliverer import DeliveryThreads
from dispatcher.outbox.in_flight import FIRST_WINDOW, InFlight
from dispatcher.outbox.pacing import PROMPT_PAUSE, Pacing
from dispatcher.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """Seconds. An attempt takes `attempt` at most; the rest of the lease is for recording it."""

    attempt: float = 15.0
    margin: float = 15.0

    @property
    def seconds(self) -> float:
        return self.attempt + self.margin


class Claimer:
    """`step` is one claim; it returns how long to pause before the next."""

    def __init__(
        self, store: Store, in_flight: InFlight, senders: DeliveryThreads, lease: Lease, threads: int
    ) -> None:
        self._store = store
        self._in_flight = in_flight
        self._senders = senders
        self._lease = lease
        self._pacing = Pacing(most_running=threads // 2)
        self._enough_room = max(1, threads // 4)
        self._waits_for_room = False
        self._stopping = False

    def step(self) -> float:
        room = 0 if self._stopping else self._in_flight.room()
        self._waits_for_room = room == 0
        if room == 0:
            return PROMPT_PAUSE
        claimed = self._store.claim(room, self._lease.seconds, FIRST_WINDOW, self._in_flight.limits())
        self._begin(claimed)
        self._waits_for_room = len(claimed) == room
        waited = max((delivery.waited for delivery in claimed), default=0.0)
        return self._pacing.after(len(claimed), self._in_flight.running, waited, time.monotonic())

    def wants_room(self) -> bool:
        """Whether the loop should be woken now: it took all there was, and some is free again."""
        return self._waits_for_room and self._in_flight.room() >= self._enough_room

    def stop(self) -> None:
        """Claim no more. What a claim under way brings is given back."""
        self._stopping = True

    def give_back(self) -> None:
        """Release what no thread has begun."""
        self.release(self._senders.take_back())

    def _begin(self, claimed: list[Delivery]) -> None:
        self._in_flight.begin(claimed)
        if self._stopping:
            self.release(claimed)
        else:
            self._senders.put(claimed)

    def release(self, deliveries: list[Delivery]) -> None:
        """They were not begun: no attempt is spent. Raises a DatabaseError."""
        if deliveries:
            self._in_flight.cancel(deliveries)
            released = self._store.release(deliveries)
            log.info("given back, not started", extra={"deliveries": released})
