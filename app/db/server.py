"""The run of the database's server: it is recorded at each start, and told where commits may be lost."""

from __future__ import annotations

import contextlib

import psycopg2

from app.db import connect
from app.db.errors import translate

RECORD = "SELECT rvq.know_server()"
# What began more than a day ago has been told.
CHANGED = """
SELECT r.how, to_char(r.began_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM rvq.server_runs AS r
 WHERE r.id = %s AND r.how IN ('restored', 'promoted') AND r.began_at > rvq.clock() - interval '1 day'"""
WHAT_HAPPENED = {
    "restored": "the database was restored, or moved to another server",
    "promoted": "a standby of the database took over, or it was recovered to a moment",
}
CONSEQUENCE = "what was committed last may be missing: see docs/operations.md"


def record_server(database_url: str) -> str | None:
    """Record that this server runs with the database; return a sentence if the history may have changed.

    Raise DatabaseError when the database is away.
    """
    connection = connect(database_url, "rvq-migrate")
    with contextlib.closing(connection), connection.cursor() as cursor:
        try:
            cursor.execute(RECORD)
            # A statement of its own: that one's snapshot is from before the run was recorded.
            cursor.execute(CHANGED, cursor.fetchone())
            row = cursor.fetchone()
        except psycopg2.Error as error:
            raise translate(error) from error
    return f"{WHAT_HAPPENED[row[0]]} ({row[1]}); {CONSEQUENCE}" if row else None
