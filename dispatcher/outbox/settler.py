"""The settle loop records finished attempts in batches, and keeps them while the database is away.

What is kept is bounded, since nothing more is claimed once too much is unsettled. A result is given up only
when its lease is certainly lost: then the delivery is due again, and the ledger says `unknown`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

import psycopg2

from dispatcher.delivery import Delivery, Result
from dispatcher.metrics import Metrics
from dispatcher.outbox.in_flight import InFlight
from dispatcher.store import Store

log = logging.getLogger(__name__)

BATCH = 256
# Seconds: how long the first of a batch waits for others, and how often an idle loop looks.
GATHER = 0.03
IDLE_PAUSE = 1.0
LEVELS = {"delivered": logging.DEBUG, "retry": logging.INFO, "dead": logging.WARNING}


class Settler:
    """Takes results from any thread by `put`; `step` settles one batch and returns how long to pause."""

    def __init__(self, store: Store, in_flight: InFlight, metrics: Metrics) -> None:
        self._store = store
        self._in_flight = in_flight
        self._metrics = metrics
        self._queue: deque[Result] = deque()
        # The oldest first; only `step` touches it.
        self._held: list[Result] = []
        # Ends the loop's pause early.
        self.wake: Callable[[], None] = lambda: None

    def put(self, result: Result) -> None:
        self._queue.append(result)
        self.wake()

    def step(self) -> float:
        """Settle one batch. Raises a DatabaseError, with everything kept that may still be recorded."""
        if not self._queue and not self._held:
            return IDLE_PAUSE
        if len(self._queue) < BATCH:
            time.sleep(GATHER)
        while self._queue:
            self._held.append(self._queue.popleft())
        self._give_up_lost_leases()
        batch = self._next_batch()
        if batch:
            self._finish(batch, self._settle(batch))
            done = {result.delivery.lease_token for result in batch}
            self._held = [result for result in self._held if result.delivery.lease_token not in done]
        return 0.0 if self._held or self._queue else IDLE_PAUSE

    def _next_batch(self) -> list[Result]:
        """Return the oldest results, one of each delivery, since its id is all that `settle` returns."""
        batch: dict[int, Result] = {}
        for result in self._held[:BATCH]:
            batch.setdefault(result.delivery.id, result)
        return list(batch.values())

    def _settle(self, batch: list[Result]) -> set[int]:
        """Settle the batch in one statement; one by one if the database refuses something in it."""
        try:
            return self._store.settle(batch)
        except psycopg2.Error:
            log.exception("a batch could not be recorded", extra={"deliveries": len(batch)})
        return {id_ for result in batch for id_ in self._settle_alone(result)}

    def _settle_alone(self, result: Result) -> set[int]:
        for version in (result, result.without_response()):
            try:
                return self._store.settle([version])
            except psycopg2.Error:
                log.exception("not recordable", extra={"event_id": result.delivery.event_id})
        return set()

    def _finish(self, batch: list[Result], settled: set[int]) -> None:
        for result in batch:
            if result.delivery.id in settled:
                self._metrics.record(result)
                _log(result)
            else:
                self._record_lost_lease(result.delivery, "settled by another, or expired")
        self._in_flight.forget([result.delivery for result in batch])

    def _give_up_lost_leases(self) -> None:
        now = time.monotonic()
        lost = [result.delivery for result in self._held if result.delivery.expires_at <= now]
        if lost:
            self._held = [result for result in self._held if result.delivery.expires_at > now]
            for delivery in lost:
                self._record_lost_lease(delivery, "not recorded before it ran out")
            self._in_flight.forget(lost)

    def _record_lost_lease(self, delivery: Delivery, why: str) -> None:
        self._metrics.leases_lost.inc()
        log.warning("lease lost", extra={"event_id": delivery.event_id, "host": delivery.host, "why": why})


def _log(result: Result) -> None:
    delivery, attempt, decision = result.delivery, result.attempt, result.decision
    level = LEVELS[decision.kind]
    if log.isEnabledFor(level):
        facts = {
            "event_id": delivery.event_id,
            "host": delivery.host,
            "attempt": delivery.attempt,
            "outcome": attempt.outcome,
            "status_code": attempt.status_code,
            "seconds": round(attempt.phases.total / 1000, 3),
            "retry_in_seconds": decision.delay and round(decision.delay),
        }
        log.log(level, "%s: %s", decision.kind, attempt.detail, extra=facts)
