"""A migrated database for one test: connections, short queries, the clock, and the audit of its counters."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import psycopg2

from app.db import Connection, Row

Params = Sequence[object]


class Database:
    """What the `database` fixture gives. All connections are in autocommit and closed after the test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connections: list[Connection] = []
        self._clock_moved = False
        self.main = self.connect()

    def connect(self, *, autocommit: bool = True) -> Connection:
        """One more connection; with `autocommit` False, for holding a transaction open."""
        connection = psycopg2.connect(
            self.url, application_name="rvq-test", options="-c statement_timeout=60000"
        )
        connection.autocommit = autocommit
        self._connections.append(connection)
        return connection

    def rows(self, sql: str, params: Params = (), *, on: Connection | None = None) -> list[Row]:
        """Run one statement (on `on`, else on the main connection); its rows, if it has any."""
        with (on or self.main).cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []

    def row(self, sql: str, params: Params = (), *, on: Connection | None = None) -> Row:
        """The only row."""
        (row,) = self.rows(sql, params, on=on)
        return row

    def value(self, sql: str, params: Params = (), *, on: Connection | None = None) -> Any:
        """The only column of the only row."""
        (value,) = self.row(sql, params, on=on)
        return value

    def column(self, sql: str, params: Params = (), *, on: Connection | None = None) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in self.rows(sql, params, on=on)]

    def move_clock(self, seconds: float) -> None:
        """Move RVQ's clock for this test's connections and for every session that begins after this.

        Sessions of other processes that are connected already are not moved: start them afterwards, or
        use a cluster of your own and its move_clock().
        """
        self._clock_moved = True
        name = self.url.rpartition("/")[2].partition("?")[0]
        self.rows(f'ALTER DATABASE "{name}" SET rvq.clock_offset = %s', (str(seconds),))
        for connection in self._connections:
            if not connection.closed:
                self.rows("SET rvq.clock_offset = %s", (str(seconds),), on=connection)

    def drift(self) -> list[Row]:
        """Counters that differ from the truth: (counter, counted, truth)."""
        return self.rows(
            "SELECT counter, counted, truth FROM rvq.audit() WHERE counted IS DISTINCT FROM truth"
        )

    def clean(self) -> None:
        """Empty everything, put the clock right, and forget what a reset keeps: pauses, bounds."""
        if self._clock_moved:
            self.move_clock(0)
        self.rows("SELECT rvq.reset()")
        self.rows("DELETE FROM rvq.queues")
        self.rows("DELETE FROM rvq.admission")
        self.rows("INSERT INTO rvq.admission DEFAULT VALUES")

    def close(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(psycopg2.Error):
                connection.close()
