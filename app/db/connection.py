"""One connection to PostgreSQL: how it is opened, closed, and found to have ended."""

from __future__ import annotations

import contextlib
import select
from typing import Any

import psycopg2

from app.db.errors import DatabaseUnfit
from app.db.refusals import explain
from app.db.session import ENCODING, TIMEOUTS, startup_options

Connection = psycopg2.extensions.connection

# Seconds. A peer that fell silent is noticed after 10 + 3 * 5 s, or 15 s after what it did not confirm.
CONNECT_TIMEOUT = 5
KEEPALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
TCP_USER_TIMEOUT_MS = 15_000
# A commit was given up so: it is here, and on no standby.
GIVEN_UP = "canceling wait for synchronous replication"


def connect(
    url: str,
    application_name: str,
    *,
    statement_timeout_ms: int = TIMEOUTS["statement_timeout"],
    lock_timeout_ms: int = TIMEOUTS["lock_timeout"],
) -> Connection:
    """Open a connection in autocommit with every timeout set (0: none), and all that RVQ relies on pinned.

    Raise DatabaseUnavailable with PostgreSQL's reason, or its DatabaseUnfit where waiting does not help: a
    wrong password, a missing database, one that can't hold every text.
    """
    timeouts = {
        **TIMEOUTS,
        "statement_timeout": statement_timeout_ms,
        "lock_timeout": lock_timeout_ms,
    }
    try:
        connection: Connection = psycopg2.connect(
            url,
            application_name=application_name,
            connect_timeout=CONNECT_TIMEOUT,
            tcp_user_timeout=TCP_USER_TIMEOUT_MS,
            client_encoding=ENCODING,
            options=startup_options(url, timeouts),
            **KEEPALIVE,
        )
    except psycopg2.Error as error:
        raise explain(error) from error
    _require_encoding(connection)
    connection.autocommit = True
    return connection


def _require_encoding(connection: Connection) -> None:
    """Close the connection and raise DatabaseUnfit unless the server said that the database is in UTF-8."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (ENCODING, None):
        name = connection.info.dbname
        close_quietly(connection)
        raise DatabaseUnfit(
            f"the database {name} has the encoding {encoding}, which can't hold every text: "
            f"RVQ needs {ENCODING}. Make another one: "
            f"CREATE DATABASE ... ENCODING '{ENCODING}' TEMPLATE template0"
        )


def close_quietly(connection: Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(psycopg2.Error):
            connection.close()


def says_given_up(connection: Connection) -> bool:
    """Return whether the server said, with the last results, that a wait for a standby was cancelled.

    Servers with other messages than English ones say it in vain. What we cancel is known without it.
    """
    said = "".join(connection.notices)
    connection.notices.clear()
    return GIVEN_UP in said


def was_ended_by_server(connection: Connection) -> bool:
    """Return whether the server has sent anything unasked, which it only does to end the connection.

    This is checked before each statement, because once a statement is sent and no response comes, nobody
    knows whether it was carried out. So nothing is ever sent twice.
    """
    if connection.closed:
        return True
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return bool(poller.poll(0))
