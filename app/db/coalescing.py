"""Small calls that come close together share one statement: one transaction, one commit, one start of plans.

Callers of the same kind gather in a round, which departs when nobody has joined it for clearly longer than is
usual, and after LONGEST_SECONDS whoever comes. So a steady stream makes large rounds, and those that come at
once, as workers do that were answered at once, are not kept waiting when all are there. A caller who is the
only one goes at once: a quiet system waits for nothing. A round that waits for a lock delays nobody but those
in it: the next one departs on another connection.

Whoever opens a round leads it: its thread gathers, makes the call, and does what the others have left to be
done. They go on meanwhile, so that a round wakes one thread and not as many as it has callers.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from app.db.errors import DatabaseError, PoolExhausted
from app.db.gap_estimate import GapEstimate

log = logging.getLogger("rvq.api")

T = TypeVar("T")
R = TypeVar("R")
Call = Callable[[list[T]], Sequence[R]]

LONGEST_SECONDS = 0.03
# Bounds of what is "clearly longer than usual".
SHORTEST_GAP, LONGEST_GAP = 0.003, 0.01
# In sub_tasks, or KiB: a call over the first goes alone, a round departs when it has reached the second.
ALONE, FULL = 100, 200


class Coalescer:
    """Rounds of one process. At most `most_callers` calls wait in here; beyond that PoolExhausted."""

    def __init__(
        self,
        most_callers: int,
        gaps: tuple[float, float] = (SHORTEST_GAP, LONGEST_GAP),
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._most_callers = most_callers
        self._longest_seconds = longest_seconds
        self._lock = threading.Lock()
        self._callers = 0
        self._open: dict[Hashable, _Batch] = {}
        self._arrivals: dict[Hashable, GapEstimate] = defaultdict(lambda: GapEstimate(*gaps))
        # Calls whose last round had more than one caller.
        self._had_company: set[Hashable] = set()

    def submit(self, call: Call[T, R], item: T, *, key: Hashable = None, weight: int = 1) -> Place[R]:
        """For what `call` makes of `item`, which may be given others' with the same `key` too.

        Blocks the caller who leads until the round has landed. When `call` refuses a round, each item is
        tried alone, so that nobody pays for another's mistake; a DatabaseError is everybody's.
        """
        if weight > ALONE:
            alone = _Batch(call, key, expects_company=False)
            place = alone.join(item, weight, time.monotonic())
            alone.land(alone.fly())
            return place
        led, place = self._join(call, key, item, weight)
        if led is not None:
            self._lead(led)
        return place

    def _join(self, call: Call[T, R], key: Hashable, item: T, weight: int) -> tuple[_Batch | None, Place[R]]:
        """The round that this caller has opened, if it has, and the place of its item."""
        with self._lock:
            if self._callers >= self._most_callers:
                raise PoolExhausted(f"{self._callers} calls are under way or wait")
            expects_company = self._callers > 0 or call in self._had_company
            self._callers += 1
            now = time.monotonic()
            self._arrivals[call].note(now)
            opened = None
            joined = self._open.get((call, key))
            if joined is None:
                joined = opened = self._open[call, key] = _Batch(call, key, expects_company)
            place = joined.join(item, weight, now)
            if joined.weight >= FULL:
                del self._open[call, key]
                joined.full.set()
            return opened, place

    def _lead(self, led: _Batch) -> None:
        if led.expects_company:
            self._gather(led)
        with self._lock:
            if self._open.get((led.call, led.key)) is led:
                del self._open[led.call, led.key]
            if len(led.items) > 1:
                self._had_company.add(led.call)
            else:
                self._had_company.discard(led.call)
        outcomes = led.fly()
        with self._lock:
            self._callers -= len(led.items)
        led.land(outcomes)

    def _gather(self, led: _Batch) -> None:
        latest = led.joined_at + self._longest_seconds
        arrivals = self._arrivals[led.call]
        while (rest := min(latest, led.joined_at + arrivals.patience) - time.monotonic()) > 0:
            if led.full.wait(rest):
                return


class Place(Generic[R]):
    """A caller's place in a round."""

    __slots__ = ("_number", "_round", "_then")

    def __init__(self, joined: _Batch, number: int) -> None:
        self._round = joined
        self._number = number
        self._then: Callable[[], None] | None = None

    def result(self) -> R:
        """Waits for the round to land. Raises what the call raised."""
        self._round.landed.wait()
        outcome: R = self._round.outcomes[self._number]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def when_landed(self, then: Callable[[], None]) -> None:
        """Have it called: at once if there is a result already, else by whoever leads."""
        with self._round.lock:
            if not self._round.landed.is_set():
                self._then = then
                return
        then()

    def go_on(self) -> None:
        """Raises nothing: others in the round are waiting."""
        then, self._then = self._then, None
        try:
            if then is not None:
                then()
        except Exception:
            log.exception("what was left to be done after a round failed")


class _Batch:
    def __init__(
        self, call: Callable[[list[Any]], Sequence[Any]], key: Hashable, expects_company: bool
    ) -> None:
        self.call = call
        self.key = key
        self.expects_company = expects_company
        self.joined_at = 0.0
        self.items: list[Any] = []
        self.weight = 0
        self.full = threading.Event()
        self.lock = threading.Lock()
        self.landed = threading.Event()
        self.outcomes: Sequence[Any] = ()
        self._places: list[Place[Any]] = []

    def join(self, item: Any, weight: int, now: float) -> Place[Any]:
        self.joined_at = now
        self.items.append(item)
        self.weight += weight
        place: Place[Any] = Place(self, len(self._places))
        self._places.append(place)
        return place

    def fly(self) -> Sequence[Any]:
        """A result for each item, or the exception that comes instead."""
        try:
            return self.call(self.items)
        except DatabaseError as error:
            return [copy.copy(error) for _ in self.items]  # one for each caller: raising changes it
        except Exception as error:
            return [error] if len(self.items) == 1 else [self._alone(item) for item in self.items]

    def land(self, outcomes: Sequence[Any]) -> None:
        """Everybody has a result from here on; what was left to be done then is done one after the other."""
        with self.lock:
            self.outcomes = outcomes
            self.landed.set()
        places, self._places = self._places, []  # a place knows its round: nothing may lie in a circle
        for place in places:
            place.go_on()

    def _alone(self, item: Any) -> Any:
        try:
            return self.call([item])[0]
        except Exception as error:
            return error
