"""Migrations that bring the database's schema up to the code's: numbered migrations, then the functions.

A migration runs once, in a transaction that also records it. Functions are replaced by name whenever their
file changed, all in one transaction, so that no caller meets half of a change. Every step takes the same
transaction lock and looks again at what is left to do, so any number of processes may start at once, also
through a pooler.

A release and the one before run side by side on one database. So both have a direction, the release's number:
the older one changes nothing in a database of the newer one, and a function whose file is gone is dropped by
the release after the next, when nobody calls it any more.
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
from app.db.ledger import (
    Cursor,
    Entry,
    Ledger,
    forget_functions,
    make_ledger,
    read_ledger,
    record_function,
    record_migration,
)
from app.db.sql_files import SqlFile, SqlFiles

LOCK = 0x525651  # "RVQ"; it must never change, or two versions could migrate at the same time
# A migration that can't have its lock soon gives up: everything else would queue up behind it.
LOCK_TIMEOUT_MS = 10_000
STATEMENT_TIMEOUT_MS = 600_000


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

    Raise MigrationError when the database is too new for the code, an applied migration was changed, or
    a statement failed; DatabaseError when the database is away, can't be used or a lock was not to be had.
    """
    files = files or _our_files()
    report = Report([], [], [])
    with contextlib.closing(connect(database_url, "rvq-migrate")) as connection:
        try:
            require_fit(connection)
            check_history(connection, files)
            while not schema_is_current(connection, files):
                if _step(connection, files, report):
                    break
        except psycopg2.Error as error:
            raise translate(error) from error
    return report


def schema_is_current(connection: Connection, files: SqlFiles | None = None) -> bool:
    """Return whether this code can work: nothing is left to apply, or the next release has migrated."""
    with connection.cursor() as cursor:
        return _is_current(read_ledger(cursor), files or _our_files())


def check_history(connection: Connection, files: SqlFiles | None = None) -> None:
    """Raise MigrationError when the database is too new for this code, or had other migrations."""
    with connection.cursor() as cursor:
        _check_history(read_ledger(cursor), files or _our_files())


def newer_release(connection: Connection) -> int | None:
    """Return the release that has migrated the database, if it is newer than this code."""
    with connection.cursor() as cursor:
        release = read_ledger(cursor).release
    return release if release > _our_files().release else None


@cache
def _our_files() -> SqlFiles:
    return SqlFiles.read()


def _step(connection: Connection, files: SqlFiles, report: Report) -> bool:
    """Apply the next migration or else all changed functions; return whether that was the last step."""
    with _locked(connection) as cursor:
        ledger = read_ledger(cursor)
        _check_history(ledger, files)
        if ledger.release > files.release:
            return True
        make_ledger(cursor)
        version = ledger.newest + 1
        if version in files.migrations:
            _apply_migration(cursor, version, files)
            report.migrations.append(f"{version:04}_{files.migrations[version].name}")
            return False
        _apply_functions(cursor, ledger, files, report)
        return True


@contextlib.contextmanager
def _locked(connection: Connection) -> Iterator[Cursor]:
    """Run one transaction that no other migrating process runs at the same time."""
    connection.autocommit = False
    try:
        with connection, connection.cursor() as cursor:
            # Timeouts for this transaction, which no pooler drops. The lock is waited for without one of its
            # own: what the other process does may take its time.
            cursor.execute("SET LOCAL statement_timeout = %s", (STATEMENT_TIMEOUT_MS,))
            cursor.execute("SET LOCAL lock_timeout = 0")
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            cursor.execute("SET LOCAL lock_timeout = %s", (LOCK_TIMEOUT_MS,))
            # Bodies may call functions that a later file creates.
            cursor.execute("SET LOCAL check_function_bodies = off")
            yield cursor
    finally:
        if not connection.closed:
            connection.autocommit = True


def _is_current(ledger: Ledger, files: SqlFiles) -> bool:
    if set(files.migrations) - set(ledger.migrations):
        return False
    if ledger.release > files.release:
        return ledger.release == files.release + 1
    ours = {name: Entry(file.sha256, files.release) for name, file in files.functions.items()}
    return ours.items() <= ledger.functions.items() and not _dropped(ledger, files)


def _dropped(ledger: Ledger, files: SqlFiles) -> list[str]:
    """Return the functions that have no file here, but for those that the release before may call."""
    return sorted(
        name
        for name, entry in ledger.functions.items()
        if name not in files.functions and entry.release != files.release - 1
    )


def _check_history(ledger: Ledger, files: SqlFiles) -> None:
    if ledger.release > files.release + 1:
        raise MigrationError(
            f"the database has the schema of release {ledger.release}, and this code is of release "
            f"{files.release}: only a release and the one before run side by side, so start a newer one"
        )
    if ledger.release <= files.release and ledger.newest > files.newest:
        raise MigrationError(
            f"the database has migration {ledger.newest:04}, and this code knows none after "
            f"{files.newest:04}: it was migrated by other code of this release, so start that"
        )
    for version, file in files.migrations.items():
        if version in ledger.migrations and ledger.migrations[version].sha256 != file.sha256:
            raise MigrationError(
                f"migration {version:04}_{file.name} is not the one that this database "
                "had: an applied migration must never be changed, so write a new one"
            )


def _apply_migration(cursor: Cursor, version: int, files: SqlFiles) -> None:
    file = files.migrations[version]
    _execute(cursor, f"migration {version:04}_{file.name}", file.text)
    record_migration(cursor, version, file.name, Entry(file.sha256, files.release))


def _apply_functions(cursor: Cursor, ledger: Ledger, files: SqlFiles, report: Report) -> None:
    for name, file in files.functions.items():
        had, entry = ledger.functions.get(name), Entry(file.sha256, files.release)
        if had is None or had.sha256 != file.sha256:
            _replace_function(cursor, file)
            report.functions.append(name)
        if had != entry:
            record_function(cursor, name, entry)
    # They are dropped last, when what used them is replaced, and at once, as they may use each other.
    gone = _dropped(ledger, files)
    _drop(cursor, _signatures(cursor, *gone))
    forget_functions(cursor, gone)
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
