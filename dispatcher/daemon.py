"""The dispatcher as a whole: starts in order, watches its loops, stops without spending attempts.

    database -> claim loop -> threads (send) -> settle loop -> database
                                 maintenance loops, each on its own

No transaction is open while a request is. What is in flight is bounded, and so is everything that waits.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

from app.db import DatabaseError, Pool, connect
from app.db.migrations import check_history, schema_is_current
from app.settings import Settings
from dispatcher.delivery import Delivery, Result
from dispatcher.http.connector import Limits
from dispatcher.http.pool import PoolLimits
from dispatcher.http.resolver import Resolver, system_resolver
from dispatcher.http.sender import Sender
from dispatcher.http.signer import Signer
from dispatcher.loops import Loop
from dispatcher.maintenance import maintenance_loops, maintenance_steps
from dispatcher.metrics import Metrics, Reporter
from dispatcher.outbox.claimer import Claimer, Lease
from dispatcher.outbox.deliverer import DeliveryThreads
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.settler import Settler
from dispatcher.schedule import decide
from dispatcher.store import Store
from dispatcher.systemd import Notifier

log = logging.getLogger(__name__)

# Waits that many seconds; True when we are asked to stop.
Wait = Callable[[float], bool]

NAME = "rvq-dispatcher"
# Seconds.
LOOK_EVERY = 1.0
SLOW_STATEMENT_MS = 300_000
LAST_WORDS = 5.0


class SchemaNotCurrent(Exception):
    """The database's schema is older than this code: run `rvq migrate` (the API does it when it starts)."""


class Daemon:
    """`run` is the process's life. `limits` of an attempt, `resolver` and `ca_file` are for tests."""

    def __init__(
        self,
        settings: Settings,
        notifier: Notifier,
        *,
        runtime_folder: Path | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        resolver: Resolver = system_resolver,
        ca_file: str | None = None,
    ) -> None:
        threads = settings.dispatcher_threads
        self._settings = settings
        self._notifier = notifier
        self._lease = Lease(attempt=limits.total)
        self._store = make_store(settings)
        self._metrics = Metrics()
        self._in_flight = InFlight(threads)
        self._sender = Sender(
            settings.webhook_allowed_hosts,
            settings.webhook_private_hosts,
            Signer(settings.webhook_secrets, settings.webhook_signing_key),
            resolver=resolver,
            limits=limits,
            pool_limits=PoolLimits(per_host=threads, in_all=8 * threads),
            ca_file=ca_file,
        )
        self._senders = DeliveryThreads(self._deliver, self._in_flight.most_running)
        self._settling = Settler(self._store, self._in_flight, self._metrics)
        self._claimer = Claimer(self._store, self._in_flight, self._senders, self._lease, threads)
        self._reporter = Reporter(self._metrics, self._in_flight, runtime_folder)
        self._claim_loop = Loop("claim", self._claimer.step, self._feed_watchdog)
        self._settle_loop = Loop("settle", self._settling.step)
        self._settling.wake = self._settle_loop.wake
        self._other_loops = [
            Loop("report metrics", self._reporter.step),
            *maintenance_loops(maintenance_steps(self._store, self._metrics, settings.retention_days)),
        ]

    def run(self, wait: Wait) -> int:
        """Until `wait` says stop; the exit status. Raises SchemaNotCurrent or MigrationError."""
        if not self._open(wait):
            return 0
        for loop in (self._settle_loop, self._claim_loop, *self._other_loops):
            loop.start()
        self._notifier.ready()
        log.info("ready", extra={"threads": self._settings.dispatcher_threads})
        while not wait(LOOK_EVERY):
            self._notifier.status(", ".join(f"{name} {n}" for name, n in self._reporter.sums().items()))
        return self._stop(wait)

    def _open(self, wait: Wait) -> bool:
        """Check the schema and warm the pool, as soon as there is a database; False: told to stop before."""
        pause = 0.2
        while True:
            try:
                check_schema(self._settings.database_url)
                self._store.open()
                return True
            except DatabaseError as error:
                log.warning("waiting for the database: %s", error)
                self._notifier.status(f"waiting for the database: {error}")
            if wait(pause * random.uniform(0.8, 1.0)):
                return False
            pause = min(pause * 2, 5.0)

    def _deliver(self, delivery: Delivery) -> None:
        """In a sending thread: one attempt, and what follows from it."""
        if delivery.expires_at - time.monotonic() < self._lease.attempt:
            # We slept (a suspended machine?): too little of the lease is left to try.
            self._claimer.release([delivery])
            return
        started = time.monotonic()
        try:
            attempt = self._sender.send(delivery.event_id, delivery.url, delivery.body)
            decision = decide(attempt, delivery.tries, random.random())
        except BaseException:
            self._in_flight.cancel([delivery])
            raise
        result = Result(delivery, attempt, decision, started)
        self._in_flight.end(result)
        self._settling.put(result)
        if self._claimer.wants_room():
            self._claim_loop.wake()

    def _feed_watchdog(self) -> None:
        """After each round of the claim loop, unless a thread is stuck: nothing here outlives its lease."""
        if self._in_flight.oldest_seconds() < self._lease.seconds + LAST_WORDS:
            self._notifier.feed_watchdog()

    def _stop(self, wait: Wait) -> int:
        """Claim no more, give back what is not begun, let the rest end and record it; 1 when told twice."""
        self._notifier.stopping()
        log.info("stopping", extra=self._reporter.sums())
        self._claimer.stop()
        for loop in (self._claim_loop, *self._other_loops):
            loop.stop()
        with contextlib.suppress(DatabaseError):
            self._claimer.give_back()
        give_up = time.monotonic() + self._lease.attempt + 2.0
        if not _wait_for(
            lambda: not self._claim_loop.is_alive and self._in_flight.running == 0, give_up, wait
        ):
            return 1
        give_up = time.monotonic() + LAST_WORDS
        if not _wait_for(lambda: self._in_flight.unsettled == 0, give_up, wait):
            return 1
        self._settle_loop.stop()
        self._settle_loop.join(LAST_WORDS)
        self._sender.close()
        self._store.close()
        log.info("stopped", extra=self._reporter.sums())
        return 0


def make_store(settings: Settings) -> Store:
    """Exactly DISPATCHER_DB_POOL connections, one of them for what takes long."""
    url, size = settings.database_url, settings.dispatcher_db_pool
    pool = Pool(url, max(1, size - 1), NAME, max_waiting=32, wait_seconds=5.0)
    if size == 1:
        return Store(pool)
    slow_pool = Pool(url, 1, NAME, max_waiting=2, wait_seconds=600.0, statement_timeout_ms=SLOW_STATEMENT_MS)
    return Store(pool, slow_pool)


def check_schema(database_url: str) -> None:
    """Raises SchemaNotCurrent, MigrationError (the database is newer than us) or DatabaseUnavailable."""
    with contextlib.closing(connect(database_url, NAME)) as connection:
        check_history(connection)
        if not schema_is_current(connection):
            raise SchemaNotCurrent(SchemaNotCurrent.__doc__)


def _wait_for(condition: Callable[[], bool], give_up: float, wait: Wait) -> bool:
    """Until it holds or it is too late, whichever is first; False when we are told to stop a second time."""
    while not condition() and time.monotonic() < give_up:
        if wait(0.02):
            return False
    return True
