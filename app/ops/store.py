"""The calls to the database for health and metrics: the only module here that names SQL functions."""

from __future__ import annotations

import psycopg2

from app.db import Pool
from app.db.errors import DatabaseReadOnly, translate
from app.db.migrations import schema_is_current

LATE = "SELECT s.step FROM rvq.list_due_steps() AS s WHERE s.is_behind ORDER BY s.step"


class Store:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def stats(self) -> str:
        """Return counts by status as a JSON document."""
        return str(self._pool.value("SELECT rvq.stats()"))

    def late_steps(self) -> list[str]:
        """Return the steps of maintenance that have something to do for more than a minute."""
        return [step for (step,) in self._pool.rows(LATE)]

    def maintenance_seconds(self) -> float:
        """Return how many seconds ago a dispatcher last did its maintenance."""
        return float(self._pool.value("SELECT rvq.maintenance_seconds()"))

    def is_writable(self) -> bool:
        """Ask whether the database takes writes; if not, the pool looks for a node that does."""
        sql = "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'"
        try:
            with self._pool.connection() as connection, connection.cursor() as cursor:
                cursor.execute(sql)
                if cursor.fetchone() != (True,):
                    raise DatabaseReadOnly("the database takes no writes")
        except psycopg2.Error as error:
            raise translate(error) from error
        except DatabaseReadOnly:
            return False
        return True

    def require_commits(self) -> None:
        """Raise a DatabaseError unless a small commit goes through, or did a few seconds ago."""
        self._pool.require_commits()

    def has_current_schema(self) -> bool:
        with self._pool.connection() as connection:
            try:
                return schema_is_current(connection)
            except psycopg2.Error as error:
                raise translate(error) from error
