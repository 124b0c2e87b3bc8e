"""What a database must be like before RVQ works on it, asked once at each start.

What a session can pin is pinned (app/db/session.py); here is what it can't pin, and whether the pins have
arrived: a pooler may drop them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg2

from app.db.connection import Connection
from app.db.errors import ClockOutOfRange, DatabaseReadOnly, DatabaseUnfit, translate
from app.db.session import ENCODING, PINNED, TIMEOUTS
from app.ids import FIRST_DAY, LAST_DAY

log = logging.getLogger("rvq.database")

# With other values of these RVQ is right too: they are pinned for order and safety.
MAY_DIFFER = {"search_path", "timezone", "datestyle", "client_min_messages", "idle_session_timeout"}
NEEDED = {name: value for name, value in PINNED.items() if name not in MAY_DIFFER} | {
    "client_encoding": ENCODING
}
ASKED = (*NEEDED, *TIMEOUTS, "server_encoding", "default_transaction_read_only", "synchronous_commit")
CURRENT = (
    "SELECT n.name, current_setting(n.name, true) FROM unnest(%s) AS n(name)"
    " UNION ALL SELECT 'recovery', pg_is_in_recovery()::text"
)
# As rvq.clock(), which may not be there yet.
DAY_SHOWN = (
    "SELECT d.day::text, d.day BETWEEN %s AND %s"
    " FROM (SELECT (clock_timestamp() AT TIME ZONE 'UTC' + make_interval(secs =>"
    " coalesce(nullif(current_setting('rvq.clock_offset', true), ''), '0')::float8))::date) AS d(day)"
)


def require_fit(connection: Connection) -> None:
    """Raise DatabaseUnfit if the database, or the way to it, must be changed.

    Raise DatabaseReadOnly if it takes none, ClockOutOfRange if its clock can't be right. That commits
    may be lost in a crash is the operator's choice, and is logged.
    """
    found = _current(connection)
    _require_pins(connection, found)
    reason = why_read_only(found)
    if reason:
        raise DatabaseReadOnly(f"the database takes no writes: {reason}")
    _require_clock(connection)
    if found["synchronous_commit"] == "off":
        log.warning("synchronous_commit is off: a crash of the database may lose what was answered as stored")


def lost_pins(found: Mapping[str, str]) -> dict[str, str]:
    """Return what RVQ relies on and did not get. Any timeout will do, but there has to be one."""
    lost = {name: value for name, value in NEEDED.items() if found[name] not in (value, "")}
    return lost | {name: f"{value}ms" for name, value in TIMEOUTS.items() if found[name] == "0"}


def why_read_only(found: Mapping[str, str]) -> str:
    if found["recovery"] == "true":
        return "it is a standby; give all hosts in the URL, and target_session_attrs=read-write"
    if found["default_transaction_read_only"] == "on":
        return "default_transaction_read_only is on, set by its owner, its host or a role"
    return ""


def _require_pins(connection: Connection, found: Mapping[str, str]) -> None:
    """Raise DatabaseUnfit when a pin did not arrive, with the statements that set them on the role."""
    lost = lost_pins(found)
    if lost:
        role = f'ALTER ROLE "{connection.info.user}" SET'
        statements = "; ".join(f"{role} {name} = '{value}'" for name, value in lost.items())
        raise DatabaseUnfit(
            "what RVQ sets when it connects does not arrive, since a pooler in between drops it. "
            f"Let the pooler pass `options`, or set it on the role: {statements}"
        )


def _require_clock(connection: Connection) -> None:
    ((day, is_known),) = _ask(connection, DAY_SHOWN, (FIRST_DAY, LAST_DAY))
    if not is_known:
        raise ClockOutOfRange(
            f"the database's clock shows {day}, and ids can only say days from {FIRST_DAY} to {LAST_DAY}: "
            "set the clock of its machine right"
        )


def _current(connection: Connection) -> dict[str, str]:
    # None, here "": a setting of an extension that this session has not loaded yet.
    return {name: value or "" for name, value in _ask(connection, CURRENT, (list(ASKED),))}


def _ask(connection: Connection, sql: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall()
    except psycopg2.Error as error:
        raise translate(error) from error
