"""Coalescing: calls that come close together share one statement, one transaction and one commit.

A batch departs as soon as no other of its kind is under way, so calls gather by themselves while one is.
Before that it waits as long as batches are held up at the time: hardly at all on an idle machine, long on a
loaded one. So time is spent on waiting where it buys throughput, and nowhere else. A caller who is alone
departs at once, a full batch too, and any batch after LONGEST_SECONDS: one that waits for a lock delays only
its own callers.

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
# Weights, in sub_tasks or KiB: a call heavier than ALONE runs alone; a batch runs once it weighs FULL.
ALONE, FULL = 100, 200
# Each new batch counts this much in the average of how long batches are held up.
NEWEST = 0.2
# The shortest time grows by this factor at each batch, so that it follows a change of machine, data or
# plan: by half in a thousand batches.
FADING = 1.0004


class Pressure:
    """The average of seconds by which batches of one kind were held up lately. Not thread-safe.

    What a batch needs is learned: the shortest time that one of its size took. What it takes beyond that it
    spent waiting, for a CPU, a lock or the disk, on this machine or on the database's. So one figure tells
    how short all of them are, also those that this process can't see.
    """

    def __init__(self) -> None:
        self.held_up = 0.0
        self._shortest: dict[int, float] = {}

    def record(self, size: int, seconds: float) -> None:
        """Take note of a batch of `size` items. Sizes up to the same power of two are alike."""
        alike = size.bit_length()
        self._shortest[alike] = shortest = min(self._shortest.get(alike, seconds) * FADING, seconds)
        self.held_up += NEWEST * (seconds - shortest - self.held_up)


class Coalescer:
    """The open batches of one process, with at most `max_callers` calls waiting or under way.

    No batch gathers for longer than `longest_seconds`. `pressure` makes what each kind of call is judged by.
    """

    def __init__(
        self,
        max_callers: int,
        longest_seconds: float = LONGEST_SECONDS,
        pressure: Callable[[], Pressure] = Pressure,
    ) -> None:
        self._max_callers = max_callers
        self._longest_seconds = longest_seconds
        self._lock = threading.Lock()
        self._callers = 0
        self._open: dict[Hashable, _Batch] = {}
        self._kinds: dict[Hashable, _Kind] = defaultdict(lambda: _Kind(pressure()))

    def submit(self, call: Call[T, R], item: T, *, key: Hashable = None, weight: int = 1) -> Future[R]:
        """Return a future of `call`'s result for `item`, which may run with others of the same `key`.

        A caller who leads is blocked until its batch has run. When the database refuses a batch, each item is
        tried alone, so that nobody pays for another's mistake. Any other error is raised for all of them, as
        only a SQLSTATE proves that nothing was committed. Raise PoolExhausted when there are `max_callers`
        already.
        """
        if weight > ALONE:
            batch = _Batch(call, key, expects_company=False)
            future: Future[R] = batch.join(item, weight)
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
            expects_company = self._callers > 0 or self._kinds[call].had_company
            self._callers += 1
            batch = self._open.get((call, key))
            leads = batch is None
            if batch is None:
                batch = self._open[call, key] = _Batch(call, key, expects_company)
            future: Future[R] = batch.join(item, weight)
            if batch.weight >= FULL:
                del self._open[call, key]
                batch.wake.set()
            return batch, future, leads

    def _lead(self, batch: _Batch) -> None:
        kind = self._kinds[batch.call]
        while (rest := self._seconds_to_wait(batch, kind)) > 0:
            batch.wake.wait(rest)
            batch.wake.clear()
        began = time.monotonic()
        outcomes = batch.run()
        with self._lock:
            kind.running -= 1
            kind.pressure.record(len(batch.items), time.monotonic() - began)
            self._callers -= len(batch.items)
            for other in self._open.values():
                if other.call == batch.call:
                    other.wake.set()
        batch.resolve(outcomes)

    def _seconds_to_wait(self, batch: _Batch, kind: _Kind) -> float:
        """Return how long the batch waits at most for now. At 0 it is closed, and counts as under way."""
        with self._lock:
            latest = batch.opened_at + self._longest_seconds
            earliest = batch.opened_at + kind.pressure.held_up
            departs_at = latest if kind.running else min(earliest, latest)
            rest = departs_at - time.monotonic()
            if rest > 0 and batch.expects_company and batch.weight < FULL:
                return rest
            if self._open.get((batch.call, batch.key)) is batch:
                del self._open[batch.call, batch.key]
            kind.running += 1
            kind.had_company = len(batch.items) > 1
            return 0.0


class _Kind:
    """What is known of one call: how many of its batches are under way, and what became of the last ones."""

    def __init__(self, pressure: Pressure) -> None:
        self.running = 0
        self.had_company = False
        self.pressure = pressure


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
    """The items of one call. `wake` is set when its leader shall look again whether it departs."""

    def __init__(
        self, call: Callable[[list[Any]], Sequence[Any]], key: Hashable, expects_company: bool
    ) -> None:
        self.call = call
        self.key = key
        self.expects_company = expects_company
        self.opened_at = time.monotonic()
        self.items: list[Any] = []
        self.weight = 0
        self.wake = threading.Event()
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.outcomes: Sequence[Any] = ()
        self._futures: list[Future[Any]] = []

    def join(self, item: Any, weight: int) -> Future[Any]:
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
