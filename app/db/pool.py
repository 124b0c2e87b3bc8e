"""A fixed pool of connections to PostgreSQL.

Every call is one statement in autocommit: one round trip, one transaction. No session state is kept, so
any connection serves any call.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from app.db.connection import Connection, close_quietly, connect, cut_off, was_ended_by_server
from app.db.errors import (
    AnswerLost,
    DatabaseReadOnly,
    DatabaseUnavailable,
    OutcomeUnknown,
    PoolExhausted,
    translate,
)

Row = tuple[Any, ...]
Params = Sequence[object]

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# A call that the server has not ended so long after its statement timeout is cut off by this side.
OVERDUE_SECONDS, WATCH_SECONDS = 5.0, 1.0
# While a node takes no writes, connections are made anew this often: its address may lead elsewhere by then.
LEAVE_EVERY_SECONDS = 1.0


class Pool:
    """Exactly `size` connections, all opened by `open()`, so that the first request finds them warm.

    A call takes one, runs one statement and gives it back. When all are in use, up to `max_waiting` threads
    wait for `wait_seconds` at most; beyond that, calls raise PoolExhausted. A connection that broke, or that
    is not idle when it comes back, is closed and replaced at its next use; so are all of them once a call has
    learned that its node takes no writes. While the database is away, new connections are tried with growing
    pauses, and calls in between fail at once. A call to which the server never responds (it is frozen, or a
    proxy before it is) is cut off soon after its timeout.
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
        # A stack, the last used on top; None stands for a connection that is opened at its next use.
        self._free: list[Connection | None] = [None] * size
        self._freed = threading.Condition(threading.Lock())
        # When each in use was taken, by the monotonic clock, later by what its call may take longer.
        self._taken_at: dict[Connection, float] = {}
        # Those in use when their node was left; they are closed when they are given back.
        self._left: set[Connection] = set()
        self._left_at = float("-inf")
        self._closed = threading.Event()
        self._waiting = 0
        self._pause = 0.0
        self._next_try = 0.0

    @property
    def max_calls(self) -> int:
        """The number of calls that may be under way or wait at the same time."""
        return self.size + self._max_waiting

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a connection at this moment."""
        return self._waiting

    @property
    def in_use(self) -> int:
        """The number of connections in use at this moment."""
        return self.size - len(self._free)

    def open(self, warm_up: Sequence[str] = ()) -> None:
        """Open every connection and run the `warm_up` statements on each: a backend's first call is slow.

        Raise a DatabaseError, with no connection left open, if one fails.
        """
        self._closed = threading.Event()
        try:
            for index in range(self.size):
                connection = self._free[index] = self._free[index] or self._connect()
                with connection.cursor() as cursor:
                    for statement in warm_up:
                        cursor.execute(statement)
        except psycopg2.Error as error:
            self.close()
            raise translate(error) from error
        except Exception:
            self.close()
            raise
        threading.Thread(target=self._watch, args=(self._closed,), name="pool-watch", daemon=True).start()

    def close(self) -> None:
        """Close all free connections; one in use is closed when it is given back."""
        with self._freed:
            self._closed.set()
            for index, connection in enumerate(self._free):
                self._free[index] = None
                close_quietly(connection)

    def rows(self, sql: str, params: Params = (), *, limit_ms: int | None = None) -> list[Row]:
        """Run one statement; return its rows. Raise DatabaseError, or psycopg2's own for what SQL refused.

        `limit_ms`: the statement timeout of this call, in place of the pool's.
        """
        limit = "" if limit_ms is None else f"SET LOCAL statement_timeout = {limit_ms}; "
        with self.connection(limit_ms) as connection:
            try:
                with connection.cursor() as cursor:
                    cursor.execute(limit + sql, params)
                    return cursor.fetchall() if cursor.description else []
            except psycopg2.Error as error:
                raise translate(error, was_sent=True) from error

    def row(self, sql: str, params: Params = ()) -> Row | None:
        """Return the first row, or None."""
        rows = self.rows(sql, params)
        return rows[0] if rows else None

    def value(self, sql: str, params: Params = ()) -> Any:
        """Return the first column of the first row. Raise LookupError when there is none."""
        return self.rows(sql, params)[0][0]

    def change(self, sql: str, params: Params = (), *, limit_ms: int | None = None) -> Any:
        """Run one statement that writes; return its only value. Raise OutcomeUnknown if no answer came."""
        try:
            return self.rows(sql, params, limit_ms=limit_ms)[0][0]
        except AnswerLost as error:
            raise OutcomeUnknown(str(error), error.retry_after) from error

    @contextlib.contextmanager
    def connection(self, limit_ms: int | None = None) -> Iterator[Connection]:
        """Yield a connection that was alive a moment ago; afterwards keep it, or close it if not clean.

        `limit_ms`: a statement timeout that is set on it, if not the pool's.
        """
        connection = self._take()
        try:
            if connection is None or was_ended_by_server(connection):
                close_quietly(connection)
                connection = None
                connection = self._connect()
            more_ms = max(0, (limit_ms or 0) - self._statement_timeout_ms)
            self._taken_at[connection] = time.monotonic() + more_ms / 1000
            yield connection
        except DatabaseReadOnly:
            self._leave_node()
            raise
        finally:
            self._give_back(connection)

    def cut_off_overdue(self, limit_seconds: float) -> int:
        """Cut off all calls that have taken longer than `limit_seconds`; return how many there were."""
        now = time.monotonic()
        with self._freed:
            overdue = [one for one, since in list(self._taken_at.items()) if now - since > limit_seconds]
            for connection in overdue:
                cut_off(connection)
        return len(overdue)

    def _leave_node(self) -> None:
        """Close the free connections, and those in use when they are given back: their node takes no writes.

        A session that began while the node was read-only stays so for good, and an address may have moved to
        another node. A pause keeps calls that go on failing from connecting anew each time.
        """
        with self._freed:
            if time.monotonic() < self._left_at + LEAVE_EVERY_SECONDS:
                return
            self._left_at = time.monotonic()
            self._left.update(self._taken_at)
            for index, connection in enumerate(self._free):
                self._free[index] = None
                close_quietly(connection)

    def _watch(self, closed: threading.Event) -> None:
        """Cut off overdue calls until the pool is closed. Without a statement timeout, none is overdue."""
        limit_seconds = self._statement_timeout_ms / 1000 + OVERDUE_SECONDS
        while self._statement_timeout_ms and not closed.wait(WATCH_SECONDS):
            self.cut_off_overdue(limit_seconds)

    def _take(self) -> Connection | None:
        with self._freed:
            if not self._free:
                self._wait()
            return self._free.pop()

    def _wait(self) -> None:
        """Wait, with the lock held, until a connection is free. Raise PoolExhausted if none comes free."""
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
            with self._freed:  # before it is free: cut_off_overdue must not end the next caller's call
                self._taken_at.pop(connection, None)
                is_left = connection in self._left
                self._left.discard(connection)
            if is_left or self._closed.is_set() or not _is_clean(connection):
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


def _is_clean(connection: Connection) -> bool:
    """Return whether the next caller finds the connection as new: open, in autocommit, in no transaction."""
    if connection.closed or not connection.autocommit:
        return False
    return connection.info.transaction_status == TRANSACTION_STATUS_IDLE
