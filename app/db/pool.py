"""A fixed pool of connections to PostgreSQL, and everything else that callers need of the database.

Every call is one statement in autocommit: one round trip, one transaction. No session state is kept, so
any connection serves any call.
"""

from __future__ import annotations

import contextlib
import random
import select
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from app.db.connection import Connection, close_quietly, connect, cut_off
from app.db.errors import DatabaseUnavailable, PoolExhausted, translate

Row = tuple[Any, ...]
Params = Sequence[object]

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# How long after its statement timeout a call that the server does not end is cut off, and how often to look.
OVERDUE_SECONDS, LOOK_SECONDS = 5.0, 1.0


class Pool:
    """Exactly `size` connections, all opened by `open()`, so that the first request finds them warm.

    A call takes one, runs one statement and gives it back. When all are taken, up to `max_waiting` threads
    wait for `wait_seconds` at most; beyond that PoolExhausted. A connection that broke, or that is not
    idle when it comes back, is closed and made anew at its next use. While the database is away, new
    connections are tried with growing pauses, and calls in between fail at once. A call that the server
    leaves without an answer (frozen, or behind a proxy that is) is cut off soon after its timeout.
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
        self._url = url
        self._application_name = application_name
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._statement_timeout_ms = statement_timeout_ms
        self._lock_timeout_ms = lock_timeout_ms
        # Free places, the last used on top; None is a place whose connection has to be made anew.
        self._free: list[Connection | None] = [None] * size
        self._freed = threading.Condition(threading.Lock())
        # Since when each connection in use has been taken, by the monotonic clock.
        self._taken: dict[Connection, float] = {}
        self._closed = threading.Event()
        self._waiting = 0
        self._pause = 0.0
        self._next_try = 0.0

    @property
    def places(self) -> int:
        """How many calls may be under way or wait at the same time."""
        return self.size + self._max_waiting

    @property
    def waiting(self) -> int:
        """How many calls wait for a connection at this moment."""
        return self._waiting

    @property
    def in_use(self) -> int:
        """How many connections are taken at this moment."""
        return self.size - len(self._free)

    def open(self, warm_up: Sequence[str] = ()) -> None:
        """Make every connection and run the `warm_up` statements on each: a backend's first call is slow.

        Raises DatabaseUnavailable with no connection left open.
        """
        self._closed = threading.Event()
        try:
            for place in range(self.size):
                connection = self._free[place] = self._free[place] or self._connect()
                with connection.cursor() as cursor:
                    for statement in warm_up:
                        cursor.execute(statement)
        except Exception:
            self.close()
            raise
        threading.Thread(target=self._watch, args=(self._closed,), name="pool-watch", daemon=True).start()

    def close(self) -> None:
        """Close the connections that nobody uses. One that is taken is closed when it is given back."""
        with self._freed:
            self._closed.set()
            for place, connection in enumerate(self._free):
                self._free[place] = None
                close_quietly(connection)

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one statement; all its rows. Raises a DatabaseError, or psycopg2's own for what SQL refused."""
        with self.connection() as connection:
            try:
                with connection.cursor() as cursor:
                    cursor.execute(sql, params)
                    return cursor.fetchall() if cursor.description else []
            except psycopg2.Error as error:
                raise translate(error) from error

    def row(self, sql: str, params: Params = ()) -> Row | None:
        """The first row, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def value(self, sql: str, params: Params = ()) -> Any:
        """The first column of the first row. Raises LookupError when there is none."""
        return self.rows(sql, params)[0][0]

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """Take a connection that was alive a moment ago; it is given back, or replaced if not clean."""
        taken = self._take()
        try:
            if taken is None or _was_hung_up(taken):
                close_quietly(taken)
                taken = None
                taken = self._connect()
            self._taken[taken] = time.monotonic()
            yield taken
        finally:
            self._give_back(taken)

    def cut_off_overdue(self, limit_seconds: float) -> int:
        """One look: end all calls that have taken longer than this. Returns how many."""
        now = time.monotonic()
        with self._freed:
            overdue = [one for one, since in list(self._taken.items()) if now - since > limit_seconds]
            for connection in overdue:
                cut_off(connection)
        return len(overdue)

    def _watch(self, closed: threading.Event) -> None:
        """Looks until the pool is closed; without a statement timeout there is nothing to hold calls to."""
        limit_seconds = self._statement_timeout_ms / 1000 + OVERDUE_SECONDS
        while self._statement_timeout_ms and not closed.wait(LOOK_SECONDS):
            self.cut_off_overdue(limit_seconds)

    def _take(self) -> Connection | None:
        with self._freed:
            if not self._free:
                self._wait()
            return self._free.pop()

    def _wait(self) -> None:
        """Until a place is free. Called with the lock held."""
        if self._waiting >= self._max_waiting:
            raise PoolExhausted(f"all {self.size} connections are in use and {self._waiting} calls wait")
        self._waiting += 1
        try:
            if not self._freed.wait_for(lambda: self._free, self._wait_seconds):
                raise PoolExhausted(f"no connection came free in {self._wait_seconds} s")
        finally:
            self._waiting -= 1

    def _give_back(self, connection: Connection | None) -> None:
        if connection is not None:
            with self._freed:  # from here on it is nobody's to cut off
                self._taken.pop(connection, None)
        if connection is not None and (self._closed.is_set() or not _is_clean(connection)):
            close_quietly(connection)
            connection = None
        with self._freed:
            self._free.append(connection)
            self._freed.notify()

    def _connect(self) -> Connection:
        if self._closed.is_set():
            raise DatabaseUnavailable("the pool is closed")
        now = time.monotonic()
        if now < self._next_try:
            raise DatabaseUnavailable("the database is away", retry_after=self._next_try - now)
        try:
            connection = connect(
                self._url,
                self._application_name,
                statement_timeout_ms=self._statement_timeout_ms,
                lock_timeout_ms=self._lock_timeout_ms,
            )
        except DatabaseUnavailable:
            self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
            self._next_try = time.monotonic() + self._pause * random.uniform(0.5, 1.0)
            raise
        self._pause = self._next_try = 0.0
        return connection


def _was_hung_up(connection: Connection) -> bool:
    """Whether the server has said anything while nobody asked: it only does to end the connection.

    Looked at before each statement, since afterwards nobody knows whether a statement that got no answer
    was carried out. So nothing is ever sent twice.
    """
    if connection.closed:
        return True
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def _is_clean(connection: Connection) -> bool:
    """Whether the next caller finds it as new: open, in autocommit, in no transaction."""
    if connection.closed or not connection.autocommit:
        return False
    return connection.info.transaction_status == TRANSACTION_STATUS_IDLE
