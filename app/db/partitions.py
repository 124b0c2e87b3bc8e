"""The partitions that must exist before the API serves requests."""

from __future__ import annotations

import contextlib

import psycopg2

from app.db import connect
from app.db.errors import translate

DAYS_AHEAD = 7


def create_partitions(database_url: str) -> None:
    """Create the partitions of today and the days ahead. Raise DatabaseError if it fails."""
    connection = connect(database_url, "rvq-migrate", statement_timeout_ms=60_000)
    with contextlib.closing(connection), connection.cursor() as cursor:
        try:
            cursor.execute("SELECT rvq.create_partitions(%s)", (DAYS_AHEAD,))
        except psycopg2.Error as error:
            raise translate(error) from error
