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
from app.db.connection import Connection, close_quietly, has_cancelled_wait, was_ended_by_server
from app.db.connector import Connector
from app.db.errors import (
    AnswerLost,
    DatabaseError,
    DatabaseReadOnly,
    DatabaseUnavailable,
    OutcomeUnknown,
    translate,
)
from app.db.places import Places

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
        # The number of calls that may be under way or wait at the same time.
        self.max_calls = size + max_waiting
        self._connector = Connector(url, application_name, statement_timeout_ms, lock_timeout_ms)
        self._places = Places(size, max_waiting, wait_seconds)
        self._statement_timeout_ms = statement_timeout_ms
        self._calls = Calls()
        # Backends that were cut off, by process id: each keeps a place until it is gone.
        self._cut_off: list[int] = []
        # Those in use when their node was left; they are closed when they are given back.
        self._left: set[Connection] = set()
        self._left_at = float("-inf")
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a connection at this moment."""
        return self._places.waiting

    @property
    def in_use(self) -> int:
        """The number of connections in use at this moment."""
        return self.size - self._places.free

    def open(self, warm_up: Sequence[str] = ()) -> None:
        """Open every connection and run the `warm_up` statements on each: a backend's first call is slow.

        Raise a DatabaseError, with no connection left open, if one fails.
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
        connection = self._places.fill(index, self._connect)
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
                # Behind a pooler in session mode, for example, whose own pool is smaller.
                log.error("connection %d of %d got no answer", index + 1, self.size)

    def close(self) -> None:
        """Close all free connections; one in use is closed when it is given back."""
        self._closed.set()
        self._places.close_free()

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
        connection = self._places.take()
        try:
            if connection is not None and was_ended_by_server(connection):
                close_quietly(connection)
                connection = None
                # A restart or a switch ends all at once.
                self._places.close_free(was_ended_by_server)
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
        with self._lock:
            if time.monotonic() < self._left_at + LEAVE_EVERY_SECONDS:
                return
            self._left_at = time.monotonic()
            self._left.update(self._calls.connections())
        self._places.close_free()

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
        with self._lock:
            backends = self._cut_off[:]
        if backends and not self._connector.end_backends(backends):
            with self._lock:
                del self._cut_off[: len(backends)]
            self._places.give_back(*[None] * len(backends))

    def _require_commit(self, connection: Connection) -> None:
        """Raise AnswerLost if a cancel, ours or an operator's, has ended the commit's wait for a standby.

        The server calls that a success: it is committed there, perhaps not on the standby.
        """
        call = self._calls.end(connection)
        if call and (call.cancelled_at is not None or has_cancelled_wait(connection)):
            raise AnswerLost("the commit took too long, and may be lost if this server is")

    def _give_back(self, connection: Connection | None) -> None:
        left_backend = None
        if connection is not None:
            call = self._calls.end(connection)  # before it is free: nothing must end the next caller's call
            left_backend = call and call.left_backend
            with self._lock:
                is_left = connection in self._left
                self._left.discard(connection)
                if left_backend:
                    self._cut_off.append(left_backend)
            if is_left or self._closed.is_set() or not _is_clean(connection):
                close_quietly(connection)
                connection = None
        if not left_backend:
            self._places.give_back(connection)

    def _connect(self) -> Connection:
        if self._closed.is_set():
            raise DatabaseUnavailable("the pool is closed")
        return self._connector.connect()


def _is_clean(connection: Connection) -> bool:
    """Return whether the next caller finds the connection as new: open, in autocommit, in no transaction."""
    if connection.closed or not connection.autocommit:
        return False
    return connection.info.transaction_status == TRANSACTION_STATUS_IDLE
