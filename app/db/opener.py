"""Opens the connections of a pool, and pauses while the database is away."""

from __future__ import annotations

import random
import time

from app.db.connection import Connection, connect
from app.db.errors import DatabaseUnavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Opener:
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

    def open(self) -> Connection:
        """Open one connection. Raise DatabaseUnavailable."""
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
