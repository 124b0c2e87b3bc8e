"""A fixed pool of connections to PostgreSQL.

Every call is one statement in autocommit: one round trip, one transaction. No session state is kept, so
any connection serves any call.
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

from app.db.calls import CANCEL_SECONDS, Calls
from app.db.connection import Connection, close_quietly, was_ended_by_server
from app.db.connector import Connector
from app.db.errors import (
    AnswerLost,
    DatabaseError,
    DatabaseReadOnly,
    DatabaseUnavailable,
    OutcomeUnknown,
    PoolExhausted,
    translate,
)

log = logging.getLogger("rvq.database")

Row = tuple[Any, ...]
Params = Sequence[object]

# A call that the server has not ended so long after its statement timeout is given up by this side.
OVERDUE_SECONDS, WATCH_SECONDS = 5.0, 1.0
# While a node takes no writes, connections are made anew this often: its address may lead elsewhere by then.
LEAVE_EVERY_SECONDS = 1.0


class Pool:
    """Exactly `size` connections, all opened by `open()`, so that the first request finds them warm.

    A call takes one, runs one statement and gives it back. When all are in use, up to `max_waiting` threads
    wait for `wait_seconds` at most; beyond that, calls raise PoolExhausted. A connection that broke, or that
    is not idle when it comes back, is closed and replaced at its next use; so are all of them once a call has
    learned that its node takes no writes. While the database is away, new connections are tried with growing
    pauses, and calls in between fail at once. A call to which the server never responds (a commit that waits
    for a standby; a server, or a proxy before it, that is frozen) is given up soon after its timeout, and its
    place stays taken until its backend is gone.
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
        self._connector = Connector(url, application_name, statement_timeout_ms, lock_timeout_ms)
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._statement_timeout_ms = statement_timeout_ms
        # A stack, the last used on top; None stands for a connection that is opened at its next use.
        self._free: list[Connection | None] = [None] * size
        self._freed = threading.Condition(threading.Lock())
        self._calls = Calls()
        # Backends that were cut off, by process id: each keeps a place until it is gone.
        self._cut_off: list[int] = []
        # Those in use when their node was left; they are closed when they are given back.
        self._left: set[Connection] = set()
        self._left_at = float("-inf")
        self._closed = threading.Event()
        self._waiting = 0

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

        Raise DatabaseUnavailable, with no connection left open, if one fails.
        """
        self._closed = threading.Event()
        threading.Thread(target=self._watch, args=(self._closed,), name="pool-watch", daemon=True).start()
        try:
            for index in range(self.size):
                self._warm_up(index, warm_up)
        except Exception:
            self.close()
            raise

    def _warm_up(self, index: int, statements: Sequence[str]) -> None:
        connection = self._free[index] = self._free[index] or self._connect()
        self._calls.begin(connection)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        except psycopg2.Error as error:
            raise translate(error) from error
        finally:
            call = self._calls.end(connection)
            if call and call.cancelled_at is not None:
                log.error("connection %d of %d got no answer", index + 1, self.size)

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
            if connection is not None and was_ended_by_server(connection):
                close_quietly(connection)
                connection = None
                self._drop_ended()
            connection = connection or self._connect()
            self._calls.begin(connection, max(0, (limit_ms or 0) - self._statement_timeout_ms) / 1000)
            yield connection
            self._require_commit(connection)
        except DatabaseReadOnly:
            self._leave_node()
            raise
        finally:
            self._give_back(connection)

    def give_up_overdue(self, limit_seconds: float, cancel_seconds: float = CANCEL_SECONDS) -> int:
        """Cancel, or at last cut off, calls that take longer than this; return how many were given up now."""
        return self._calls.give_up_overdue(limit_seconds, cancel_seconds)

    def _leave_node(self) -> None:
        """Close the free connections, and those in use when they are given back: their node takes no writes.

        A session that began while the node was read-only stays so for good, and an address may have moved to
        another node. A pause keeps calls that go on failing from connecting anew each time.
        """
        with self._freed:
            if time.monotonic() < self._left_at + LEAVE_EVERY_SECONDS:
                return
            self._left_at = time.monotonic()
            self._left.update(self._calls.connections())
            for index, connection in enumerate(self._free):
                self._free[index] = None
                close_quietly(connection)

    def _drop_ended(self) -> None:
        """Close the free connections that the server has ended: a restart or a switch ends all at once."""
        with self._freed:
            for index, connection in enumerate(self._free):
                if connection is not None and was_ended_by_server(connection):
                    self._free[index] = None
                    close_quietly(connection)

    def _watch(self, closed: threading.Event) -> None:
        """Give up overdue calls until the pool is closed. Without a statement timeout, none is overdue."""
        limit_seconds = self._statement_timeout_ms / 1000 + OVERDUE_SECONDS
        while self._statement_timeout_ms and not closed.wait(WATCH_SECONDS):
            self.give_up_overdue(limit_seconds)
            with contextlib.suppress(DatabaseError):
                self.end_cut_off()

    def end_cut_off(self) -> None:
        """End the backends that were cut off. Once all are gone they give their places back.

        Raise DatabaseError when the database is away.
        """
        with self._freed:
            backends = self._cut_off[:]
        if backends and not self._connector.end_backends(backends):
            with self._freed:
                del self._cut_off[: len(backends)]
                self._free += [None] * len(backends)
                self._freed.notify_all()

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

    def _require_commit(self, connection: Connection) -> None:
        """Raise AnswerLost if the call was cancelled and ended well all the same.

        The cancel has ended its wait for a synchronous standby: it is committed here, perhaps not there.
        """
        call = self._calls.end(connection)
        if call and call.cancelled_at is not None:
            raise AnswerLost("the commit took too long, and may be lost if this server is")

    def _give_back(self, connection: Connection | None) -> None:
        left_backend = None
        if connection is not None:
            call = self._calls.end(connection)  # before it is free: nothing must end the next caller's call
            left_backend = call and call.left_backend
            with self._freed:
                is_left = connection in self._left
                self._left.discard(connection)
            if is_left or self._closed.is_set() or not _is_clean(connection):
                close_quietly(connection)
                connection = None
        with self._freed:
            if left_backend:
                self._cut_off.append(left_backend)
            else:
                self._free.append(connection)
                self._freed.notify()

    def _connect(self) -> Connection:
        if self._closed.is_set():
            raise DatabaseUnavailable("the pool is closed")
        return self._connector.connect()


def _is_clean(connection: Connection) -> bool:
    """Return whether the next caller finds the connection as new: open, in autocommit, in no transaction."""
    if connection.closed or not connection.autocommit:
        return False
    return connection.info.transaction_status == TRANSACTION_STATUS_IDLE
