"""What every session pins, so that nothing that a database or a role brings along changes what SQL means.

`ALTER DATABASE ... SET` and `ALTER ROLE ... SET` reach into every new session. What RVQ's functions and this
code rely on is therefore part of the connection's startup message, which is stronger and costs no round trip.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from psycopg2.extensions import parse_dsn

# Read committed: who waited for a row sees it as it is afterwards, which claims and fan-in need.
# Functions name their schema themselves, so nothing but pg_catalog is searched.
PINNED: Mapping[str, str] = {
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "search_path": "pg_catalog, pg_temp",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "plan_cache_mode": "auto",
    "plpgsql.extra_errors": "none",
    "client_min_messages": "warning",
    "idle_session_timeout": "0",
}
ENCODING = "UTF8"
# Milliseconds. Without them a call that RVQ has given up goes on, and may be carried out much later.
TIMEOUTS: Mapping[str, int] = {
    "statement_timeout": 10_000,
    "lock_timeout": 5_000,
    "idle_in_transaction_session_timeout": 30_000,
}


def startup_options(url: str, timeouts: Mapping[str, int]) -> str:
    """Return the `options` of a connection: those of the URL (or PGOPTIONS), then ours, which win."""
    theirs = parse_dsn(url).get("options") or os.environ.get("PGOPTIONS", "")
    ours = (f"-c {name}={_escape(str(value))}" for name, value in {**PINNED, **timeouts}.items())
    return " ".join([theirs.strip(), *ours]).strip()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
