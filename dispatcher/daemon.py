"""The dispatcher as a whole: it starts its parts in order, watches them, and stops without spending attempts.

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

from app.db import DatabaseError, DatabaseUnfit, connect
from app.db.fitness import require_fit
from app.db.migrations import check_history, newer_release, schema_is_current
from app.db.rights import require_rights
from app.settings import Settings
from dispatcher.delivery import Lease
from dispatcher.http.sender import Sender
from dispatcher.loops import Loop
from dispatcher.maintenance import maintenance_loops
from dispatcher.metrics import Metrics
from dispatcher.outbox.claimer import Claimer
from dispatcher.outbox.deliverer import Deliverer
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.settler import Settler
from dispatcher.reporter import Reporter
from dispatcher.store import NAME, make_store
from dispatcher.systemd import Notifier

log = logging.getLogger(__name__)

# Waits that many seconds; True when the process is asked to stop.
Wait = Callable[[float], bool]

# Seconds: between status notices; for recording what has ended, when stopping.
STATUS_EVERY = 1.0
GRACE = 5.0


class SchemaNotCurrent(Exception):
    """The database's schema is older than this code: run `rvq migrate` (the API does it when it starts)."""


class Daemon:
    """Puts the parts together and lives the process's life, which is `run`."""

    def __init__(
        self, settings: Settings, notifier: Notifier, sender: Sender, runtime_folder: Path | None = None
    ) -> None:
        threads = settings.dispatcher_threads
        self._settings = settings
        self._notifier = notifier
        self._sender = sender
        self._lease = Lease(attempt=sender.limits.total)
        self._store = make_store(settings)
        self._in_flight = InFlight(threads)
        metrics = Metrics()
        settler = Settler(self._store, self._in_flight, metrics)
        self._deliverer = Deliverer(sender.send, self._store, self._in_flight, settler, self._lease)
        self._claimer = Claimer(self._store, self._in_flight, self._deliverer, self._lease, threads)
        self._reporter = Reporter(metrics, self._in_flight, runtime_folder)
        self._claim_loop = Loop("claim", self._claimer.step, self._feed_watchdog)
        self._settle_loop = Loop("settle", settler.step)
        self._other_loops = [
            Loop("report metrics", self._reporter.step),
            *maintenance_loops(self._store, metrics, settings.retention_days),
        ]
        settler.wake = self._settle_loop.wake
        self._claimer.wake = self._claim_loop.wake
        self._deliverer.on_end = self._claimer.wake_if_there_is_room

    def run(self, wait: Wait) -> int:
        """Run until `wait` says stop; return the exit status.

        Raises SchemaNotCurrent, MigrationError or DatabaseUnfit.
        """
        if not self._open(wait):
            return 0
        for loop in (self._settle_loop, self._claim_loop, *self._other_loops):
            loop.start()
        self._notifier.ready()
        log.info("ready", extra={"threads": self._settings.dispatcher_threads})
        while not wait(STATUS_EVERY):
            self._notifier.status(", ".join(f"{name} {n}" for name, n in self._reporter.sums().items()))
        return self._stop(wait)

    def _open(self, wait: Wait) -> bool:
        """Check the schema and warm the pool once there is a database; False when told to stop before."""
        pause = 0.2
        while True:
            try:
                check_schema(self._settings.database_url)
                self._store.open()
                return True
            except DatabaseUnfit:
                raise
            except DatabaseError as error:
                log.warning("waiting for the database: %s", error)
                self._notifier.status(f"waiting for the database: {error}")
            if wait(pause * random.uniform(0.8, 1.0)):
                return False
            pause = min(pause * 2, 5.0)

    def _feed_watchdog(self) -> None:
        """Feed the watchdog, unless a delivery has outlived its lease because a thread is stuck."""
        if self._in_flight.oldest_seconds() < self._lease.seconds + GRACE:
            self._notifier.feed_watchdog()

    def _stop(self, wait: Wait) -> int:
        """Give back what is not begun, let the rest end, and return the exit status: 1 when told twice."""
        self._notifier.stopping()
        log.info("stopping", extra=self._reporter.sums())
        self._claimer.stop()
        for loop in (self._claim_loop, *self._other_loops):
            loop.stop()
        with contextlib.suppress(DatabaseError):
            self._deliverer.give_back()
        if not self._drain(wait):
            return 1
        self._settle_loop.stop()
        self._settle_loop.join(GRACE)
        self._sender.close()
        self._store.close()
        log.info("stopped", extra=self._reporter.sums())
        return 0

    def _drain(self, wait: Wait) -> bool:
        """Wait until every attempt has ended and is recorded; False when told to stop a second time."""
        return _wait_for(
            lambda: not self._claim_loop.is_alive and self._in_flight.running == 0,
            self._lease.attempt + 2.0,
            wait,
        ) and _wait_for(lambda: self._in_flight.unsettled == 0, GRACE, wait)


def check_schema(database_url: str) -> None:
    """Raise SchemaNotCurrent, MigrationError (the database is newer than we are) or DatabaseUnavailable.

    Its DatabaseUnfit says, among others, which rights the role lacks.
    """
    with contextlib.closing(connect(database_url, NAME)) as connection:
        require_fit(connection)
        check_history(connection)
        if not schema_is_current(connection):
            raise SchemaNotCurrent(SchemaNotCurrent.__doc__)
        if newer_release(connection) is None:
            require_rights(connection, "dispatcher")


def _wait_for(condition: Callable[[], bool], seconds: float, wait: Wait) -> bool:
    """Wait until it holds or the time is up; False when told to stop a second time."""
    give_up = time.monotonic() + seconds
    while not condition() and time.monotonic() < give_up:
        if wait(0.02):
            return False
    return True
