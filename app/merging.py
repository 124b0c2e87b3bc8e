"""Small calls that come close together share one statement: one transaction, one commit, one start of plans.

Callers of the same kind gather in a round, which departs when nobody has joined it for GAP_SECONDS, and after
LONGEST_SECONDS whoever comes. A caller who is the only one goes at once: a quiet system waits for nothing. A
round that waits for a lock delays nobody but those in it: the next one departs on another connection.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from app.db_errors import DatabaseError, DatabaseUnavailable, PoolExhausted

T = TypeVar("T")
R = TypeVar("R")
Call = Callable[[list[T]], Sequence[R]]

GAP_SECONDS, LONGEST_SECONDS = 0.005, 0.02
# In sub_tasks, or KiB: a call over the first goes alone, a round departs when it has reached the second.
ALONE, FULL = 100, 200


class Merger:
    """Rounds of one process. At most `most_callers` threads wait in here; beyond that PoolExhausted."""

    def __init__(
        self,
        most_callers: int,
        gap_seconds: float = GAP_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._most_callers = most_callers
        self._gap_seconds = gap_seconds
        self._longest_seconds = longest_seconds
        self._lock = threading.Lock()
        self._callers = 0
        self._open: dict[Hashable, _Round] = {}
        # Calls whose last round had more than one caller.
        self._had_company: set[Hashable] = set()

    def run(self, call: Call[T, R], item: T, *, key: Hashable = None, weight: int = 1) -> R:
        """The result for `item` of `call`, which may be given others' with the same `key` too.

        Raises what `call` raises. When it refuses a round, each item is tried alone, so that nobody pays
        for another's mistake; a DatabaseError is everybody's.
        """
        if weight > ALONE:
            return call([item])[0]
        joined, place, leads = self._join(call, key, item, weight)
        try:
            if leads:
                self._lead(joined)
            else:
                joined.landed.wait()
        finally:
            with self._lock:
                self._callers -= 1
        result: R = joined.result(place)
        return result

    def _join(self, call: Call[T, R], key: Hashable, item: T, weight: int) -> tuple[_Round, int, bool]:
        """The round, the place in it, and whether this caller leads it."""
        with self._lock:
            if self._callers >= self._most_callers:
                raise PoolExhausted(f"{self._callers} calls are under way or wait")
            expects_company = self._callers > 0 or call in self._had_company
            self._callers += 1
            joined = self._open.get((call, key))
            leads = joined is None
            if joined is None:
                joined = self._open[call, key] = _Round(call, key, expects_company)
            joined.join(item, weight)
            if joined.weight >= FULL:
                del self._open[call, key]
                joined.full.set()
            return joined, len(joined.items) - 1, leads

    def _lead(self, led: _Round) -> None:
        if led.expects_company:
            self._gather(led)
        with self._lock:
            if self._open.get((led.call, led.key)) is led:
                del self._open[led.call, led.key]
            if len(led.items) > 1:
                self._had_company.add(led.call)
            else:
                self._had_company.discard(led.call)
        led.fly()

    def _gather(self, led: _Round) -> None:
        latest = led.joined_at + self._longest_seconds
        while (rest := min(latest, led.joined_at + self._gap_seconds) - time.monotonic()) > 0:
            if led.full.wait(rest):
                return


class _Round:
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
        self.landed = threading.Event()
        self._results: Sequence[Any] = ()
        self._error: Exception = DatabaseUnavailable("the call was given up")

    def join(self, item: Any, weight: int) -> None:
        self.joined_at = time.monotonic()
        self.items.append(item)
        self.weight += weight

    def fly(self) -> None:
        try:
            self._results = self.call(self.items)
        except DatabaseError as error:
            self._error = error
        except Exception as error:
            self._results = [error] if len(self.items) == 1 else [self._alone(item) for item in self.items]
        finally:
            self.landed.set()

    def result(self, place: int) -> Any:
        if not self._results:
            raise copy.copy(self._error)  # one for each thread: raising changes it
        found = self._results[place]
        if isinstance(found, Exception):
            raise found
        return found

    def _alone(self, item: Any) -> Any:
        try:
            return self.call([item])[0]
        except Exception as error:
            return error
