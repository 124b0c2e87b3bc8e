"""What the database records of its own schema: migrations and functions, each with its release.

0.1.0 recorded no releases: what has none is of release 0, beside which no other runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import psycopg2

Cursor = psycopg2.extensions.cursor

# Where the schema was made beforehand, its own comment stays: the role need not own it.
SCHEMA = """
CREATE SCHEMA rvq;
COMMENT ON SCHEMA rvq IS 'RVQ: tasks, their sub_tasks, and the webhooks that tell how they ended.';
"""
LEDGER = """
CREATE TABLE rvq.schema_migrations (
    version    integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    sha256     text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rvq.schema_migrations IS 'The migrations that this database has had.';
CREATE TABLE rvq.schema_functions (
    name   text NOT NULL PRIMARY KEY,
    sha256 text NOT NULL
);
COMMENT ON TABLE rvq.schema_functions IS 'The function files that this database has.';
"""
RELEASES = """
ALTER TABLE rvq.schema_migrations ADD COLUMN IF NOT EXISTS release integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN rvq.schema_migrations.release IS 'The release (sql/releases.toml) that brought it.';
ALTER TABLE rvq.schema_functions ADD COLUMN IF NOT EXISTS release integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN rvq.schema_functions.release IS 'The newest release (sql/releases.toml) that has it.';
"""
ROLES = """
CREATE TABLE IF NOT EXISTS rvq.schema_roles (
    part text NOT NULL CHECK (part IN ('api', 'dispatcher')),
    role name NOT NULL,
    PRIMARY KEY (part, role)
);
COMMENT ON TABLE rvq.schema_roles IS
    'The roles that have been given what the API or the dispatcher needs. Each migration does it again.';
"""
# By way of JSON, because a database of 0.1.0 does not have the column yet.
_RELEASE = "coalesce((to_jsonb(l) ->> 'release')::integer, 0)"


class Entry(NamedTuple):
    """The hash of a file, and the release that brought it."""

    sha256: str
    release: int


@dataclass(frozen=True)
class Ledger:
    """Migrations by version and functions by name; both are empty in a database that RVQ was never in."""

    migrations: dict[int, Entry]
    functions: dict[str, Entry]

    @property
    def newest(self) -> int:
        """Return the version of the newest migration, 0 if there is none."""
        return max(self.migrations, default=0)

    @property
    def release(self) -> int:
        """Return the newest release that has migrated this database, 0 if none has."""
        entries = (*self.migrations.values(), *self.functions.values())
        return max((entry.release for entry in entries), default=0)


def read_ledger(cursor: Cursor) -> Ledger:
    """Return what the database has."""
    if not _is_there(cursor):
        return Ledger({}, {})
    cursor.execute(f"SELECT l.version, l.sha256, {_RELEASE} FROM rvq.schema_migrations AS l")
    migrations = {version: Entry(sha256, release) for version, sha256, release in cursor.fetchall()}
    cursor.execute(f"SELECT l.name, l.sha256, {_RELEASE} FROM rvq.schema_functions AS l")
    return Ledger(migrations, {name: Entry(sha256, release) for name, sha256, release in cursor.fetchall()})


def make_ledger(cursor: Cursor) -> None:
    """Make the tables that are missing, and what 0.1.0 did not have."""
    cursor.execute("SELECT FROM pg_namespace WHERE nspname = 'rvq'")
    if not cursor.rowcount:
        cursor.execute(SCHEMA)
    if not _is_there(cursor):
        cursor.execute(LEDGER)
    cursor.execute(RELEASES)
    cursor.execute(ROLES)


def record_migration(cursor: Cursor, version: int, name: str, entry: Entry) -> None:
    cursor.execute(
        "INSERT INTO rvq.schema_migrations (version, name, sha256, release) VALUES (%s, %s, %s, %s)",
        (version, name, *entry),
    )


def record_function(cursor: Cursor, name: str, entry: Entry) -> None:
    cursor.execute(
        "INSERT INTO rvq.schema_functions (name, sha256, release) VALUES (%s, %s, %s)"
        " ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256, release = excluded.release",
        (name, *entry),
    )


def forget_functions(cursor: Cursor, names: list[str]) -> None:
    cursor.execute("DELETE FROM rvq.schema_functions WHERE name = ANY (%s)", (names,))


def _is_there(cursor: Cursor) -> bool:
    # Not to_regclass(): having waited for the lock, its cache may still say that nothing is there.
    cursor.execute("SELECT FROM pg_tables WHERE schemaname = 'rvq' AND tablename = 'schema_migrations'")
    return bool(cursor.rowcount)
