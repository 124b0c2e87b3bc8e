"""The calls to the database for health and metrics: the only module here that names SQL functions."""

from __future__ import annotations

import psycopg2

from app.db import Pool
from app.db.errors import DatabaseReadOnly, translate
from app.db.migrations import schema_is_current
from app.ops.probe import CommitProbe

LATE = "SELECT s.step FROM rvq.list_due_steps() AS s WHERE s.is_behind ORDER BY s.step"


class Store:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._probe = CommitProbe(lambda: pool.change("SELECT rvq.prove_commit()"))

    def stats(self) -> str:
        """Return counts by status as a JSON document."""
        return str(self._pool.value("SELECT rvq.stats()"))

    def late_steps(self) -> list[str]:
        """Return the steps of maintenance that have something to do for more than a minute."""
        return [step for (step,) in self._pool.rows(LATE)]

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

    def why_no_commit(self) -> str:
        """Return why commits do not go through; nothing if they do, or did two seconds ago."""
        return self._probe.failure()

    def has_current_schema(self) -> bool:
        with self._pool.connection() as connection:
            try:
                return schema_is_current(connection)
            except psycopg2.Error as error:
                raise translate(error) from error
