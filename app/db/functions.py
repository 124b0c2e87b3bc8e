"""Functions that follow their files: replaced where a file changed, dropped where it is gone.

Also what a migration and a function share: a statement is run, and its failure is explained.
"""

from __future__ import annotations

import psycopg2
from psycopg2.errors import InvalidFunctionDefinition

from app.db.errors import FORBIDDEN, DatabaseUnfit, translate
from app.db.ledger import Cursor, Entry, Ledger, forget_functions, record_function
from app.db.sql_files import SqlFile, SqlFiles

OWNER = (
    "run rvq migrate as the role that owns the schema rvq, or as one that may make it: "
    "CREATE SCHEMA rvq AUTHORIZATION ROLE"
)


class MigrationError(Exception):
    """The schema can't be brought up to date; the text says why, and the step that failed changed nothing."""


def apply_functions(cursor: Cursor, ledger: Ledger, files: SqlFiles) -> tuple[list[str], list[str]]:
    """Replace the functions whose files changed and drop those that are gone; return the names of both."""
    replaced = []
    for name, file in files.functions.items():
        had, entry = ledger.functions.get(name), Entry(file.sha256, files.release)
        if had is None or had.sha256 != file.sha256:
            _replace_function(cursor, file)
            replaced.append(name)
        if had != entry:
            record_function(cursor, name, entry)
    # They are dropped last, when what used them is replaced, and at once, as they may use each other.
    gone = gone_functions(ledger, files)
    _drop(cursor, _signatures(cursor, *gone))
    forget_functions(cursor, gone)
    return replaced, gone


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
        execute(cursor, f"function {file.name}", file.text)
    except psycopg2.Error as error:
        raise explain_failure(f"function {file.name}", error) from error
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
        execute(cursor, f"dropping {routines}", f"DROP ROUTINE {routines}")


def gone_functions(ledger: Ledger, files: SqlFiles) -> list[str]:
    """Return the functions that have no file here, but for those that the release before may call."""
    return sorted(
        name
        for name, entry in ledger.functions.items()
        if name not in files.functions and entry.release != files.release - 1
    )


def execute(cursor: Cursor, what: str, text: str) -> None:
    """Run a statement; raise what explain_failure returns."""
    try:
        cursor.execute(text)
    except psycopg2.Error as error:
        raise explain_failure(what, error) from error


def explain_failure(what: str, error: psycopg2.Error) -> Exception:
    """Return a MigrationError with the server's words, or a DatabaseError when time or a role is to blame."""
    if error.pgcode == FORBIDDEN:
        return DatabaseUnfit(f"{what} failed: {error.diag.message_primary}. What to do: {OWNER}")
    translated = translate(error)
    return translated if translated is not error else MigrationError(f"{what} failed: {error}".strip())
