"""Opening a pool's connections: not in vain too often, and ending the backends that it left behind."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import psycopg2

from app.db.connection import Connection, close_quietly, connect
from app.db.errors import DatabaseUnavailable, translate

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# Only those of our own name: behind a pooler a process id says nothing.
END_BACKENDS = """
SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity AS a
 WHERE a.pid = ANY (%s) AND a.pid <> pg_backend_pid()
   AND a.usename = current_user AND a.application_name = %s"""


class Connector:
    """While the database is away, it is tried with growing pauses, and calls in between fail at once."""

    def __init__(
        self, url: str, application_name: str, statement_timeout_ms: int, lock_timeout_ms: int
    ) -> None:
        self._url = url
        self._application_name = application_name
        self._statement_timeout_ms = statement_timeout_ms
        self._lock_timeout_ms = lock_timeout_ms
        self._pause = 0.0
        self._next_try = 0.0

    def connect(self) -> Connection:
        """Open a connection. Raise DatabaseUnavailable."""
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

    def end_backends(self, pids: Sequence[int]) -> int:
        """Tell these backends of ours to end; return how many were still there. Raise DatabaseError."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(END_BACKENDS, (list(pids), self._application_name))
                row = cursor.fetchone()
                return int(row[0]) if row else 0
        except psycopg2.Error as error:
            raise translate(error) from error
        finally:
            close_quietly(connection)
