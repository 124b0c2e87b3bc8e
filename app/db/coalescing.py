"""Coalescing: calls that come close together share one statement, one transaction and one commit.

Calls of the same kind are gathered in a batch. A caller who is alone runs at once: an idle system waits for
nothing. Otherwise a batch runs when nobody has joined it for clearly longer than the usual gap between calls,
when it is full, or after LONGEST_SECONDS. So a steady stream makes large batches, and a burst of workers that
were answered together waits no longer than the burst lasts. A batch that waits for a lock delays only the
callers in it: the next one runs on another connection.

The caller who opens a batch leads it: its thread gathers, makes the call, and runs the callbacks of the
others. Their threads serve other requests meanwhile, so a batch wakes one thread, not one a caller.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import psycopg2

from app.db.errors import DatabaseError, OutcomeUnknown, PoolExhausted

log = logging.getLogger("rvq.api")

T = TypeVar("T")
R = TypeVar("R")
Call = Callable[[list[T]], Sequence[R]]

LONGEST_SECONDS = 0.03
# Bounds of the wait for one more caller, in seconds.
SHORTEST_WAIT, LONGEST_WAIT = 0.003, 0.01
# Weights, in sub_tasks or KiB: a call heavier than ALONE runs alone; a batch runs once it weighs FULL.
ALONE, FULL = 100, 200
# Stop waiting after GAPS times the median gap: the burst is over.
GAPS = 3.5
# The running median grows by this factor with each gap that is longer, and shrinks with each that is shorter.
STEP = 1.1
# Seconds. Above this median gap most waits would be in vain, so a caller waits the shortest time allowed.
RARE_GAP = 0.007


class Coalescer:
    """The open batches of one process, with at most `max_callers` calls waiting or under way.

    `wait_bounds` are the shortest and the longest wait for one more caller, in seconds; no batch gathers for
    longer than `longest_seconds`.
    """

    def __init__(
        self,
        max_callers: int,
        wait_bounds: tuple[float, float] = (SHORTEST_WAIT, LONGEST_WAIT),
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._max_callers = max_callers
        self._longest_seconds = longest_seconds
        self._lock = threading.Lock()
        self._callers = 0
        self._open: dict[Hashable, _Batch] = {}
        self._gaps: dict[Hashable, GapEstimate] = defaultdict(lambda: GapEstimate(*wait_bounds))
        # Calls whose last batch had more than one caller.
        self._had_company: set[Hashable] = set()

    def submit(self, call: Call[T, R], item: T, *, key: Hashable = None, weight: int = 1) -> Future[R]:
        """Return a future of `call`'s result for `item`, which may run with others of the same `key`.

        A caller who leads is blocked until its batch has run. When the database refuses a batch, each item is
        tried alone, so that nobody pays for another's mistake. Any other error is raised for all of them, as
        only a SQLSTATE proves that nothing was committed. Raise PoolExhausted when there are `max_callers`
        already.
        """
        if weight > ALONE:
            batch = _Batch(call, key, expects_company=False)
            future: Future[R] = batch.join(item, weight, time.monotonic())
            batch.resolve(batch.run())
            return future
        batch, future, leads = self._join(call, key, item, weight)
        if leads:
            self._lead(batch)
        return future

    def _join(self, call: Call[T, R], key: Hashable, item: T, weight: int) -> tuple[_Batch, Future[R], bool]:
        """Return the batch that took the item, its future, and whether this caller opened the batch."""
        with self._lock:
            if self._callers >= self._max_callers:
                raise PoolExhausted(f"{self._callers} calls are under way or wait")
            expects_company = self._callers > 0 or call in self._had_company
            self._callers += 1
            now = time.monotonic()
            self._gaps[call].record(now)
            batch = self._open.get((call, key))
            leads = batch is None
            if batch is None:
                batch = self._open[call, key] = _Batch(call, key, expects_company)
            future: Future[R] = batch.join(item, weight, now)
            if batch.weight >= FULL:
                del self._open[call, key]
                batch.full.set()
            return batch, future, leads

    def _lead(self, batch: _Batch) -> None:
        if batch.expects_company:
            self._gather(batch)
        with self._lock:
            if self._open.get((batch.call, batch.key)) is batch:
                del self._open[batch.call, batch.key]
            if len(batch.items) > 1:
                self._had_company.add(batch.call)
            else:
                self._had_company.discard(batch.call)
        outcomes = batch.run()
        with self._lock:
            self._callers -= len(batch.items)
        batch.resolve(outcomes)

    def _gather(self, batch: _Batch) -> None:
        latest = batch.joined_at + self._longest_seconds
        gaps = self._gaps[batch.call]
        while (rest := min(latest, batch.joined_at + gaps.wait_seconds) - time.monotonic()) > 0:
            if batch.full.wait(rest):
                return


class Future(Generic[R]):
    """The result of one caller's item, once its batch has run."""

    __slots__ = ("_batch", "_callback", "_index")

    def __init__(self, batch: _Batch, index: int) -> None:
        self._batch = batch
        self._index = index
        self._callback: Callable[[], None] | None = None

    def result(self) -> R:
        """Wait for the batch; return the result or raise what the call raised."""
        self._batch.done.wait()
        outcome: R = self._batch.outcomes[self._index]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` now if there is a result already, else later in the thread that leads the batch."""
        with self._batch.lock:
            if not self._batch.done.is_set():
                self._callback = callback
                return
        callback()

    def run_callback(self) -> None:
        """Run the callback, if there is one. Its errors are only logged: the others' must run too."""
        callback, self._callback = self._callback, None
        try:
            if callback is not None:
                callback()
        except Exception:
            log.exception("the callback of a coalesced call failed")


class _Batch:
    """The items of one call. `joined_at` is when the last one joined, by the monotonic clock."""

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
        self.done = threading.Event()
        self.outcomes: Sequence[Any] = ()
        self._futures: list[Future[Any]] = []

    def join(self, item: Any, weight: int, now: float) -> Future[Any]:
        self.joined_at = now
        self.items.append(item)
        self.weight += weight
        future: Future[Any] = Future(self, len(self._futures))
        self._futures.append(future)
        return future

    def run(self) -> Sequence[Any]:
        """Make the call; return for each item its result, or the exception to raise instead."""
        outcomes = _outcomes_of(self.call, self.items)
        if len(self.items) > 1 and isinstance(outcomes[0], psycopg2.Error):
            return [_outcomes_of(self.call, [item])[0] for item in self.items]
        return outcomes

    def resolve(self, outcomes: Sequence[Any]) -> None:
        """Give every future its outcome, then run the callbacks one after the other."""
        with self.lock:
            self.outcomes = outcomes
            self.done.set()
        futures, self._futures = self._futures, []  # futures refer to this batch: break the cycle
        for future in futures:
            future.run_callback()


def _outcomes_of(call: Callable[[list[Any]], Sequence[Any]], items: list[Any]) -> Sequence[Any]:
    """Make a call; return its results, or for each item an error: psycopg2's if the database refused."""
    try:
        return call(items)
    except Exception as raised:
        error = _as_database_error(raised)
    # Raising changes an error: each caller has its own.
    return [error, *(copy.copy(error) for _ in items[1:])]


def _as_database_error(error: Exception) -> Exception:
    """Return OutcomeUnknown instead of an error that says nothing about what the database did."""
    if isinstance(error, DatabaseError) or (isinstance(error, psycopg2.Error) and error.pgcode):
        return error
    log.error("a call failed, and may have been carried out", exc_info=error)
    return OutcomeUnknown(f"{type(error).__name__}; the call may have been carried out")


class GapEstimate:
    """A running median of the gaps between calls of one kind; it tells how long to wait for one more."""

    def __init__(self, shortest_wait: float, longest_wait: float) -> None:
        self._shortest_wait, self._longest_wait = shortest_wait, longest_wait
        self._median = RARE_GAP
        self._latest = float("-inf")

    @property
    def wait_seconds(self) -> float:
        """The time to wait after the latest call, within the bounds."""
        if self._median > RARE_GAP:
            return self._shortest_wait
        return min(max(GAPS * self._median, self._shortest_wait), self._longest_wait)

    def record(self, now: float) -> None:
        """Update the estimate with a call at `now`, by the monotonic clock."""
        step = STEP if now - self._latest > self._median else 1 / STEP
        self._median = min(max(self._median * step, self._shortest_wait / GAPS), 2 * RARE_GAP)
        self._latest = now
