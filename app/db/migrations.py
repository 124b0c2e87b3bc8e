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
from dataclasses import dataclass, field
from functools import cache

import psycopg2

from app.db import Connection, connect
from app.db.errors import translate
from app.db.fitness import require_fit
from app.db.functions import MigrationError as MigrationError
from app.db.functions import apply_functions, execute, explain_failure, gone_functions
from app.db.grants import Grants, apply_grants, check_roles, read_roles
from app.db.ledger import (
    Cursor,
    Entry,
    Ledger,
    make_ledger,
    read_ledger,
    record_migration,
)
from app.db.sql_files import SqlFiles

LOCK = 0x525651  # "RVQ"; it must never change, or two versions could migrate at the same time
# A migration that can't have its lock soon gives up: everything else would queue up behind it.
LOCK_TIMEOUT_MS = 10_000
STATEMENT_TIMEOUT_MS = 600_000
# No partitioned table may be put in the database's own tablespace by its name.
UNNAMED_TABLESPACE = """
SELECT set_config('default_tablespace', '', true) FROM pg_database AS d
  JOIN pg_tablespace AS t ON t.oid = d.dattablespace
 WHERE d.datname = current_database() AND t.spcname = current_setting('default_tablespace')"""


@dataclass(frozen=True)
class Report:
    """The names of what a run changed: migrations (`0003_create_counters`), functions made and dropped.

    `grants` are the statements that granted and revoked something.
    """

    migrations: list[str]
    functions: list[str]
    dropped: list[str]
    grants: list[str] = field(default_factory=list)


def migrate(database_url: str, files: SqlFiles | None = None, grants: Grants | None = None) -> Report:
    """Bring the schema up to date; do nothing, and take no lock, when it is.

    `grants` are the roles of the parts it names; unless it is None, the rights of all roles that were ever
    given are set right too.

    Raise MigrationError when the database is too new for the code, an applied migration was changed, or
    a statement failed; DatabaseError when the database is away, can't be used or a lock was not to be had.
    """
    files = files or _our_files()
    report = Report([], [], [])
    with contextlib.closing(connect(database_url, "rvq-migrate")) as connection:
        try:
            require_fit(connection)
            check_history(connection, files)
            with connection.cursor() as cursor:
                check_roles(cursor, grants or {})
            while not schema_is_current(connection, files):
                if _step(connection, files, report):
                    break
            if grants is not None:
                _set_rights(connection, grants, report)
        except psycopg2.Error as error:
            raise translate(error) from error
    return report


def schema_is_current(connection: Connection, files: SqlFiles | None = None) -> bool:
    """Return whether this code can work: nothing is left to apply, or the next release has migrated."""
    return _is_current(_ledger_of(connection), files or _our_files())


def check_history(connection: Connection, files: SqlFiles | None = None) -> None:
    """Raise MigrationError when the database is too new for this code, or had other migrations."""
    _check_history(_ledger_of(connection), files or _our_files())


def newer_release(connection: Connection) -> int | None:
    """Return the release that has migrated the database, if it is newer than this code."""
    release = _ledger_of(connection).release
    return release if release > _our_files().release else None


@cache
def _our_files() -> SqlFiles:
    return SqlFiles.read()


def _ledger_of(connection: Connection) -> Ledger:
    try:
        with connection.cursor() as cursor:
            return read_ledger(cursor)
    except psycopg2.Error as error:
        raise translate(error) from error


def _set_rights(connection: Connection, grants: Grants, report: Report) -> None:
    """Grant and revoke in a transaction of its own, where there is anything to grant."""
    with connection.cursor() as cursor:
        if not grants and not read_roles(cursor):
            return
    if newer := newer_release(connection):
        raise MigrationError(f"the schema is that of release {newer}: grant with that release's rvq migrate")
    with _locked(connection) as cursor:
        make_ledger(cursor)
        report.grants.extend(apply_grants(cursor, grants))


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
        replaced, dropped = apply_functions(cursor, ledger, files)
        report.functions.extend(replaced)
        report.dropped.extend(dropped)
        report.grants.extend(apply_grants(cursor, {}))
        return True


@contextlib.contextmanager
def _locked(connection: Connection) -> Iterator[Cursor]:
    """Run one transaction that no other migrating process runs at the same time.

    Raise MigrationError or DatabaseError for what the server refuses.
    """
    connection.autocommit = False
    try:
        with connection, connection.cursor() as cursor:
            # Timeouts for this transaction, which no pooler drops. The lock is waited for without one of its
            # own: what the other process does may take its time.
            cursor.execute("SET LOCAL statement_timeout = %s", (STATEMENT_TIMEOUT_MS,))
            cursor.execute("SET LOCAL lock_timeout = 0")
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            cursor.execute("SET LOCAL lock_timeout = %s", (LOCK_TIMEOUT_MS,))
            cursor.execute(UNNAMED_TABLESPACE)
            # Bodies may call functions that a later file creates.
            cursor.execute("SET LOCAL check_function_bodies = off")
            yield cursor
    except psycopg2.Error as error:
        raise explain_failure("the migration", error) from error
    finally:
        if not connection.closed:
            connection.autocommit = True


def _is_current(ledger: Ledger, files: SqlFiles) -> bool:
    if set(files.migrations) - set(ledger.migrations):
        return False
    if ledger.release > files.release:
        return ledger.release == files.release + 1
    ours = {name: Entry(file.sha256, files.release) for name, file in files.functions.items()}
    return ours.items() <= ledger.functions.items() and not gone_functions(ledger, files)


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
    execute(cursor, f"migration {version:04}_{file.name}", file.text)
    record_migration(cursor, version, file.name, Entry(file.sha256, files.release))
