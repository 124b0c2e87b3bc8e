"""A fixed pool of connections to PostgreSQL.

Every call is one statement in autocommit: one round trip, one transaction. No session state is kept, so
any connection serves any call. What seldom happens is in other modules: opener, places (waiting for one),
calls (ending those that take too long), write_check.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from app.db.calls import Calls
from app.db.connection import Connection, close_quietly, says_given_up, was_ended_by_server
from app.db.errors import (
    AnswerLost,
    DatabaseNotStoring,
    DatabaseReadOnly,
    DatabaseUnavailable,
    OutcomeUnknown,
    translate,
)
from app.db.opener import Opener
from app.db.places import Places
from app.db.watcher import Watcher
from app.db.write_check import DISK, NOT_CONFIRMED, PROBE, PROBE_MS, WriteCheck

log = logging.getLogger("rvq.database")

Row = tuple[Any, ...]
Params = Sequence[object]

# For what is cancelled because the pool is closed.
CLOSE_SECONDS = 2.0


class Pool:
    """Exactly `size` connections, all opened by `open()`, so that the first request finds them warm.

    A call takes one and gives it back. When all are in use, up to `max_waiting` threads wait for
    `wait_seconds` at most; beyond that, calls raise PoolExhausted. A connection that broke, or that is not
    idle when it comes back, is closed and replaced at its next use; so are all of them once one was lost in a
    call, or a call has learned that its node takes no writes. While the database is away, new connections are
    tried with growing pauses, and calls in between fail at once. A call that outlives its timeout is
    cancelled, then cut off; its place stays taken until its backend is gone. While the database stores
    nothing, calls that write fail at once.
    """

    def __init__(
        self,
        url: str,
        size: int,
        application_name: str,
        *,
        max_waiting: int = 0,
        wait_seconds: float = 1.0,
        statement_timeout_ms: int = 10_000,
        lock_timeout_ms: int = 5_000,
    ) -> None:
        self.size = size
        self._statement_timeout_ms = statement_timeout_ms
        self._opener = Opener(url, application_name, statement_timeout_ms, lock_timeout_ms)
        # It guards the places and the calls.
        self._lock = threading.Lock()
        self._places = Places(self._lock, size, max_waiting, wait_seconds)
        self._calls = Calls(self._lock)
        self._writes = WriteCheck(self._commit)
        self._watcher = Watcher(self._look)
        self._is_closed = False

    @property
    def max_calls(self) -> int:
        """The number of calls that may be under way or wait at the same time."""
        return self.size + self._places.max_waiting

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a connection at this moment."""
        return self._places.waiting

    @property
    def in_use(self) -> int:
        """The number of places in use at this moment."""
        return self.size - len(self._places.free)

    def open(self, warm_up: Sequence[str] = ()) -> None:
        """Open every connection and run the `warm_up` statements on each: a backend's first call is slow.

        Raise a DatabaseError, with no connection left open, if one fails.
        """
        self._is_closed = False
        free = self._places.free
        try:
            for index in range(self.size):
                connection = free[index] = free[index] or self._connect()
                self._calls.run(connection, warm_up)
        except AnswerLost:
            # Behind a pooler in session mode, for example, whose own pool is smaller.
            log.error("connection %d of %d got no answer", index + 1, self.size)
            self.close()
            raise
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Close all free connections; cancel what is in use, and close it when it is given back."""
        with self._lock:
            self._is_closed = True
            self._places.close_free()
        self._watcher.stop()
        self._calls.cancel_all(CLOSE_SECONDS)

    def rows(self, sql: str, params: Params = (), *, limit_ms: int | None = None) -> list[Row]:
        """Run one statement that reads; return its rows.

        Raise DatabaseError, or psycopg2's own for what SQL refused. `limit_ms`: the statement timeout of this
        call, in place of the pool's.
        """
        return self._run(sql, params, limit_ms)[0]

    def row(self, sql: str, params: Params = ()) -> Row | None:
        """Return the first row, or None."""
        rows = self.rows(sql, params)
        return rows[0] if rows else None

    def value(self, sql: str, params: Params = ()) -> Any:
        """Return the first column of the first row. Raise LookupError when there is none."""
        return self.rows(sql, params)[0][0]

    def change_rows(
        self, sql: str, params: Params = (), *, limit_ms: int | None = None, may_be_local: bool = False
    ) -> list[Row]:
        """Run one statement that writes; return its rows. Raise OutcomeUnknown if no answer came.

        That is raised too where the commit's wait for a standby was given up, unless it `may_be_local`:
        it is visible, but lost if the standby takes over. While nothing is stored, raise DatabaseNotStoring.
        """
        if self._writes.doubt:  # asked here, since this is asked by every call
            self._writes.require()
        try:
            rows, is_confirmed = self._run(sql, params, limit_ms)
        except AnswerLost as error:
            raise OutcomeUnknown(str(error), error.retry_after) from error
        if not is_confirmed:
            self._writes.begin_doubt(NOT_CONFIRMED)
            if not may_be_local:
                raise OutcomeUnknown(NOT_CONFIRMED)
        return rows

    def change(
        self, sql: str, params: Params = (), *, limit_ms: int | None = None, may_be_local: bool = False
    ) -> Any:
        """Run one statement that writes; return its only value. Raise what change_rows raises."""
        return self.change_rows(sql, params, limit_ms=limit_ms, may_be_local=may_be_local)[0][0]

    def require_commits(self) -> None:
        """Raise a DatabaseError unless a commit went through a few seconds ago, or goes through now."""
        self._writes.require_fresh()

    @contextlib.contextmanager
    def connection(self, limit_ms: int | None = None) -> Iterator[Connection]:
        """Yield a connection that was alive a moment ago; afterwards keep it, or close it if not clean.

        `limit_ms`: a statement timeout that is set on it, if not the pool's.
        """
        with self._lock:
            connection = self._places.free.pop() if self._places.free else self._places.wait()
        try:
            if connection is None or was_ended_by_server(connection):
                close_quietly(connection)
                connection = None
                connection = self._connect()
            more_ms = 0 if limit_ms is None else limit_ms - self._statement_timeout_ms
            self._calls.since[connection] = time.monotonic() + more_ms / 1000
            yield connection
        except DatabaseReadOnly:
            with self._lock:
                self._places.leave(self._calls.since)
            raise
        finally:
            self._give_back(connection)

    def cut_off_overdue(self, limit_seconds: float) -> int:
        """Cut off all calls that have taken longer than `limit_seconds`; return how many there were."""
        return self._calls.cut_off_overdue(limit_seconds)

    def _run(self, sql: str, params: Params, limit_ms: int | None) -> tuple[list[Row], bool]:
        """Run one statement; return its rows, and whether its commit was not given up."""
        limit = "" if limit_ms is None else f"SET LOCAL statement_timeout = {limit_ms}; "
        with self.connection(limit_ms) as connection:
            try:
                with connection.cursor() as cursor:
                    cursor.execute(limit + sql, params)
                    rows = cursor.fetchall() if cursor.description else []
            except psycopg2.Error as error:
                meaning = translate(error, was_sent=True)
                if isinstance(meaning, DatabaseNotStoring):
                    self._writes.begin_doubt(DISK)
                raise meaning from error
            given_up = connection in self._calls.interrupted or (
                connection.notices and says_given_up(connection)
            )
            return rows, not given_up

    def _commit(self) -> None:
        """Make a small commit. Raise a DatabaseError if it fails, or is not confirmed by a standby."""
        _, is_confirmed = self._run(PROBE, (), PROBE_MS)
        if not is_confirmed:
            self._writes.begin_doubt(NOT_CONFIRMED)
            raise DatabaseNotStoring(NOT_CONFIRMED)

    def _look(self) -> None:
        """End overdue calls, free places, and find out whether writes work again."""
        self._calls.end_overdue(self._statement_timeout_ms)
        with self._lock:
            self._places.find_gone()
        self._writes.try_again()

    def _give_back(self, connection: Connection | None) -> None:
        interruption, was_lost = None, False
        if connection is not None:
            with self._lock:  # before it is free: nothing may end the next call
                self._calls.since.pop(connection, None)
                interruption = self._calls.interrupted.pop(connection, None)
                is_left = connection in self._places.left
                self._places.left.discard(connection)
            was_lost = bool(connection.closed)
            if interruption or is_left or self._is_closed or not _is_clean(connection):
                close_quietly(connection)
                connection = None
        with self._lock:
            if interruption:
                self._places.lose(interruption)
            else:
                self._places.free.append(connection)
                self._places.freed.notify()
            if was_lost:
                self._places.leave(self._calls.since)

    def _connect(self) -> Connection:
        if self._is_closed:
            raise DatabaseUnavailable("the pool is closed")
        self._watcher.start()  # with the first connection, hence not before a fork
        return self._opener.open()


def _is_clean(connection: Connection) -> bool:
    """Return whether the next caller finds the connection as new: open, in autocommit, in no transaction."""
    if connection.closed or not connection.autocommit:
        return False
    return connection.info.transaction_status == TRANSACTION_STATUS_IDLE
