"""The claim loop claims as many due deliveries as there is room for and hands them to the threads.

After a claim that took all the room it waits for room, else as long as Pacing says. Its rounds feed the
watchdog.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from dispatcher.delivery import Lease
from dispatcher.outbox.deliverer import Deliverer
from dispatcher.outbox.in_flight import FIRST_WINDOW, InFlight
from dispatcher.store import Store

# Seconds: after a claim that brought MANY; after one that brought fewer, and for so long after the last.
MANY, BATCH_PAUSE = 3, 0.02
PROMPT_PAUSE, PROMPT_FOR = 0.005, 1.0
LONGEST_PAUSE = 0.25
# What a claim brought counts so much less with each claim after it: many come in bursts.
FADING = 0.7
# A delivery that waited longer than two batch pauses shows that we are behind: then there is no batch pause.
BEHIND = 2 * BATCH_PAUSE


class Claimer:
    """`step` makes one claim and returns how long to pause before the next."""

    def __init__(
        self, store: Store, in_flight: InFlight, deliverer: Deliverer, lease: Lease, threads: int
    ) -> None:
        self._store = store
        self._in_flight = in_flight
        self._deliverer = deliverer
        self._lease = lease
        self._pacing = Pacing(most_running=threads // 2)
        self._enough_room = max(1, threads // 4)
        self._waits_for_room = False
        self._stopping = False
        # Ends the loop's pause early.
        self.wake: Callable[[], None] = lambda: None

    def step(self) -> float:
        room = 0 if self._stopping else self._in_flight.room()
        self._waits_for_room = room == 0
        if room == 0:
            return PROMPT_PAUSE
        claimed = self._store.claim(room, self._lease.seconds, FIRST_WINDOW, self._in_flight.limits())
        self._in_flight.begin(claimed)
        if self._stopping:
            self._deliverer.release(claimed)
        else:
            self._deliverer.put(claimed)
        self._waits_for_room = len(claimed) == room
        waited = max((delivery.waited for delivery in claimed), default=0.0)
        return self._pacing.pause(len(claimed), self._in_flight.running, waited, time.monotonic())

    def wake_if_there_is_room(self) -> None:
        """Wake the loop when its last claim took all the room and enough is free again."""
        if self._waits_for_room and self._in_flight.room() >= self._enough_room:
            self.wake()

    def stop(self) -> None:
        """Claim no more. What a claim under way brings is given back."""
        self._stopping = True


class Pacing:
    """How long to pause between two claims, by what claims brought.

    Many deliveries are claimed fifty times a second at most, which is what makes batches. Few, and for a
    second after, are claimed more often, so that each is sent soon; then the pauses grow. With more than
    `most_running` attempts under way there is no room for a batch, so none is waited for.
    """

    def __init__(self, most_running: int) -> None:
        self._most_running = most_running
        self._lately = 0.0
        self._pause = PROMPT_PAUSE
        self._prompt_until = 0.0

    def pause(self, claimed: int, running: int, waited: float, now: float) -> float:
        """Return the seconds to pause after a claim; `waited`: how long ago the oldest of it was due."""
        self._lately = max(claimed, self._lately * FADING)
        if claimed:
            self._prompt_until = now + PROMPT_FOR
        if self._lately >= MANY and running <= self._most_running and waited <= BEHIND:
            return BATCH_PAUSE
        if now < self._prompt_until:
            self._pause = PROMPT_PAUSE
            return PROMPT_PAUSE
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE)
        return self._pause * random.uniform(0.8, 1.0)
