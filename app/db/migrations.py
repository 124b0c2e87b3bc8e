"""Migrations that bring the database's schema up to the code's: numbered migrations, then the functions.

A migration runs once, in a transaction that also records it. Functions are replaced by name whenever their
file changed, all in one transaction, so that no caller meets half of a change. A function whose file is gone
is dropped. Every step takes the same transaction lock and looks again at what is left to do, so any number of
processes may start at once, also through a pooler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import psycopg2
from psycopg2.errors import InvalidFunctionDefinition

from app.db import Connection, connect
from app.db.errors import translate
from app.db.fitness import require_fit
from app.db.sql_files import SqlFile, SqlFiles

Cursor = psycopg2.extensions.cursor

LOCK = 0x525651  # "RVQ"; it must never change, or two versions could migrate at the same time
# A migration that can't have its lock soon gives up: everything else would queue up behind it.
LOCK_TIMEOUT_MS = 10_000
STATEMENT_TIMEOUT_MS = 600_000

LEDGER = """
CREATE SCHEMA IF NOT EXISTS rvq;
COMMENT ON SCHEMA rvq IS 'RVQ: tasks, their sub_tasks, and the webhooks that tell how they ended.';
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


class MigrationError(Exception):
    """The schema can't be brought up to date; the text says why, and the step that failed changed nothing."""


@dataclass(frozen=True)
class Report:
    """The names of what a run changed: migrations (`0003_create_counters`), functions made and dropped."""

    migrations: list[str]
    functions: list[str]
    dropped: list[str]


def migrate(database_url: str, files: SqlFiles | None = None) -> Report:
    """Bring the schema up to date; do nothing, and take no lock, when it is.

    Raise MigrationError when the database is newer than the code, an applied migration was changed, or
    a statement failed; DatabaseError when the database is away, can't be used or a lock was not to be had.
    """
    files = files or _our_files()
    report = Report([], [], [])
    connection = connect(
        database_url,
        "rvq-migrate",
        statement_timeout_ms=STATEMENT_TIMEOUT_MS,
        lock_timeout_ms=0,
        idle_in_transaction_timeout_ms=0,
    )
    with contextlib.closing(connection):
        require_fit(connection)
        check_history(connection, files)
        while not schema_is_current(connection, files):
            if _step(connection, files, report):
                break
    return report


def schema_is_current(connection: Connection, files: SqlFiles | None = None) -> bool:
    """Return whether nothing is left to apply (one statement); newer databases are current for older code."""
    files = files or _our_files()
    with connection.cursor() as cursor:
        applied = _applied(cursor)
        if applied is None or set(files.migrations) - set(applied):
            return False
        return max(applied) > files.newest or _functions(cursor) == _hashes(files)


def check_history(connection: Connection, files: SqlFiles | None = None) -> None:
    """Raise MigrationError when the database is newer than the code, or had other migrations."""
    with connection.cursor() as cursor:
        _check_history(_applied(cursor) or {}, files or _our_files())


@cache
def _our_files() -> SqlFiles:
    return SqlFiles.read()


def _step(connection: Connection, files: SqlFiles, report: Report) -> bool:
    """Apply the next migration or else all changed functions; return whether that was the last step."""
    with _locked(connection) as cursor:
        applied = _applied(cursor)
        if applied is None:
            cursor.execute(LEDGER)
            applied = {}
        _check_history(applied, files)
        version = max(applied, default=0) + 1
        if version in files.migrations:
            _apply_migration(cursor, version, files.migrations[version])
            report.migrations.append(f"{version:04}_{files.migrations[version].name}")
            return False
        _apply_functions(cursor, files, report)
        return True


@contextlib.contextmanager
def _locked(connection: Connection) -> Iterator[Cursor]:
    """Run one transaction that no other migrating process runs at the same time."""
    connection.autocommit = False
    try:
        with connection, connection.cursor() as cursor:
            # It is waited for without a lock timeout: what the other process does may take its time.
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            cursor.execute("SET LOCAL lock_timeout = %s", (LOCK_TIMEOUT_MS,))
            # Bodies may call functions that a later file creates.
            cursor.execute("SET LOCAL check_function_bodies = off")
            yield cursor
    finally:
        if not connection.closed:
            connection.autocommit = True


def _applied(cursor: Cursor) -> dict[int, str] | None:
    """Return the hash of each applied migration; None in a database that RVQ was never in."""
    # Not to_regclass(): having waited for the lock, its cache may still say that nothing is there.
    cursor.execute("SELECT FROM pg_tables WHERE schemaname = 'rvq' AND tablename = 'schema_migrations'")
    if not cursor.rowcount:
        return None
    cursor.execute("SELECT version, sha256 FROM rvq.schema_migrations")
    return dict(cursor.fetchall())


def _functions(cursor: Cursor) -> dict[str, str]:
    cursor.execute("SELECT name, sha256 FROM rvq.schema_functions")
    return dict(cursor.fetchall())


def _hashes(files: SqlFiles) -> dict[str, str]:
    return {name: file.sha256 for name, file in files.functions.items()}


def _check_history(applied: dict[int, str], files: SqlFiles) -> None:
    newest = max(applied, default=0)
    if newest > files.newest:
        raise MigrationError(
            f"the database has migration {newest:04}, and this code knows none after {files.newest:04}: "
            "it was migrated by a newer release, so start that one"
        )
    for version, sha256 in applied.items():
        if files.migrations[version].sha256 != sha256:
            raise MigrationError(
                f"migration {version:04}_{files.migrations[version].name} is not the one that this database "
                "had: an applied migration must never be changed, so write a new one"
            )


def _apply_migration(cursor: Cursor, version: int, file: SqlFile) -> None:
    _execute(cursor, f"migration {version:04}_{file.name}", file.text)
    cursor.execute(
        "INSERT INTO rvq.schema_migrations (version, name, sha256) VALUES (%s, %s, %s)",
        (version, file.name, file.sha256),
    )


def _apply_functions(cursor: Cursor, files: SqlFiles, report: Report) -> None:
    had = _functions(cursor)
    for name, file in files.functions.items():
        if had.get(name) != file.sha256:
            _replace_function(cursor, file)
            report.functions.append(name)
    # They are dropped last, when what used them is replaced, and at once, as they may use each other.
    gone = sorted(set(had) - set(files.functions))
    _drop(cursor, _signatures(cursor, *gone))
    cursor.execute("DELETE FROM rvq.schema_functions WHERE name = ANY (%s)", (gone,))
    report.dropped.extend(gone)


def _replace_function(cursor: Cursor, file: SqlFile) -> None:
    """Replace a function in place where that is possible: calls in flight then meet the old or the new one.

    PostgreSQL refuses to replace another result or other parameter names, and makes an overload where
    the parameters' types differ; the old function is dropped then.
    """
    before = _signatures(cursor, file.name)
    cursor.execute("SAVEPOINT before_function")
    try:
        cursor.execute(file.text)
    except InvalidFunctionDefinition:
        cursor.execute("ROLLBACK TO SAVEPOINT before_function")
        _drop(cursor, before)
        _execute(cursor, f"function {file.name}", file.text)
    except psycopg2.Error as error:
        raise _failure(f"function {file.name}", error) from error
    after = _signatures(cursor, file.name)
    if not after:
        raise MigrationError(f"{file.name}.sql does not create rvq.{file.name}")
    if after - before:  # an overload was made
        _drop(cursor, before & after)
    cursor.execute(
        "INSERT INTO rvq.schema_functions (name, sha256) VALUES (%s, %s)"
        " ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256",
        (file.name, file.sha256),
    )


def _signatures(cursor: Cursor, *names: str) -> set[str]:
    """Return those of all functions and procedures with these names, like `rvq.hold_door()`."""
    cursor.execute(
        "SELECT oid::regprocedure::text FROM pg_proc"
        " WHERE pronamespace = 'rvq'::regnamespace AND proname = ANY (%s)",
        (list(names),),
    )
    return {row[0] for row in cursor.fetchall()}


def _drop(cursor: Cursor, signatures: set[str]) -> None:
    if signatures:
        routines = ", ".join(sorted(signatures))
        _execute(cursor, f"dropping {routines}", f"DROP ROUTINE {routines}")


def _execute(cursor: Cursor, what: str, text: str) -> None:
    try:
        cursor.execute(text)
    except psycopg2.Error as error:
        raise _failure(what, error) from error


def _failure(what: str, error: psycopg2.Error) -> Exception:
    """Return a MigrationError with the server's words, or a DatabaseError when only time is to blame."""
    translated = translate(error)
    return translated if translated is not error else MigrationError(f"{what} failed: {error}".strip())
