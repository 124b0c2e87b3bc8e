"""The dispatcher as a whole: it starts its parts in order, watches them, and stops without spending attempts.

    database -> claim loop -> threads (send) -> settle loop -> database     (outbox)
                                 maintenance loops, each on its own

No transaction is open while a request is. What is in flight is bounded, and so is everything that waits.
"""

from __future__ import annotations

import contextlib
import logging
import random
from pathlib import Path

import psycopg2

from app.db import DatabaseError, DatabaseUnfit, connect
from app.db.errors import translate
from app.db.fitness import require_fit
from app.db.migrations import check_history, newer_release, schema_is_current
from app.db.rights import require_rights
from app.settings import Settings
from dispatcher.http.sender import Sender
from dispatcher.loops import Loop, nothing
from dispatcher.maintenance import maintenance_loops
from dispatcher.metrics import Metrics
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.outbox import Outbox
from dispatcher.reporter import Reporter
from dispatcher.signals import Wait
from dispatcher.store import NAME, make_store
from dispatcher.systemd import Notifier

log = logging.getLogger(__name__)

# Seconds between status notices.
STATUS_EVERY = 1.0


class SchemaNotCurrent(Exception):
    """The database's schema is older than this code: run `rvq migrate` (the API does it when it starts)."""


class Daemon:
    """Puts the parts together and lives the process's life, which is `run`.

    Without a `sender` it does the maintenance and sends nothing, which waits; `sends_nothing` says why.
    """

    def __init__(
        self,
        settings: Settings,
        notifier: Notifier,
        sender: Sender | None,
        runtime_folder: Path | None = None,
        sends_nothing: str = "",
    ) -> None:
        threads = settings.dispatcher_threads
        self._settings = settings
        self._notifier = notifier
        self._sends_nothing = sends_nothing
        self._store = make_store(settings)
        metrics, in_flight = Metrics(), InFlight(threads)
        self._outbox = (
            Outbox(sender, self._store, in_flight, metrics, threads, self.feed_watchdog) if sender else None
        )
        # The claim loop feeds the watchdog, where there is one.
        on_round = nothing if self._outbox else self.feed_watchdog
        self._reporter = Reporter(metrics, in_flight, runtime_folder)
        self._loops = [
            Loop("report metrics", self._reporter.step),
            *maintenance_loops(self._store, metrics, settings.retention_days, on_round),
        ]

    def run(self, wait: Wait) -> int:
        """Run until `wait` says stop; return the exit status.

        Raises SchemaNotCurrent, MigrationError or DatabaseUnfit.
        """
        if not self._open(wait):
            return 0
        if self._outbox:
            self._outbox.start()
        for loop in self._loops:
            loop.start()
        self._notifier.ready()
        log.info("ready", extra={"threads": self._settings.dispatcher_threads})
        if self._sends_nothing:
            log.warning("maintenance only, nothing is sent: %s", self._sends_nothing)
        while not wait(STATUS_EVERY):
            self._notifier.status(self._status())
        return self._stop(wait)

    def feed_watchdog(self) -> None:
        """Feed the watchdog, unless a thread is stuck."""
        if not (self._outbox and self._outbox.is_stuck()):
            self._notifier.feed_watchdog()

    def _status(self) -> str:
        if self._sends_nothing:
            return f"maintenance only, nothing is sent: {self._sends_nothing}"
        return ", ".join(f"{name} {n}" for name, n in self._reporter.sums().items())

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

    def _stop(self, wait: Wait) -> int:
        """Let what was begun end, and return the exit status: 1 when told twice."""
        self._notifier.stopping()
        log.info("stopping", extra=self._reporter.sums())
        for loop in self._loops:
            loop.stop()
        if self._outbox and not self._outbox.stop(wait):
            return 1
        self._store.close()
        log.info("stopped", extra=self._reporter.sums())
        return 0


def check_schema(database_url: str) -> None:
    """Raise SchemaNotCurrent, MigrationError (the database is newer than we are) or DatabaseUnavailable.

    Its DatabaseUnfit says, among others, which rights the role lacks.
    """
    with contextlib.closing(connect(database_url, NAME)) as connection:
        require_fit(connection)
        try:
            check_history(connection)
            if not schema_is_current(connection):
                raise SchemaNotCurrent(SchemaNotCurrent.__doc__)
            if newer_release(connection) is None:
                require_rights(connection, "dispatcher")
        except psycopg2.Error as error:
            raise translate(error) from error
