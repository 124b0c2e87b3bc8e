"""Two releases on one database: the older never touches what the newer made, and stays ready beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from app.db import Connection, connect
from app.db.migrations import MigrationError, Report, check_history, migrate, schema_is_current
from app.db.sql_files import SqlFile, SqlFiles
from tests.app.db.test_migrations import NOTHING, ONE, TWO, column, function


def release(number: int, *functions: SqlFile, migrations: tuple[str, ...] = (ONE,)) -> SqlFiles:
    numbered = {n: SqlFile(f"step_{n}", text) for n, text in enumerate(migrations, 1)}
    return SqlFiles(numbered, {file.name: file for file in functions}, number)


OLDER = release(4, function("f", "SELECT 4"), function("gone"))
NEWER = release(5, function("f", "SELECT 5"), function("added"))
NEWEST = release(6, function("f", "SELECT 6"), function("added"))
NAMES = "SELECT proname::text FROM pg_proc WHERE pronamespace = 'rvq'::regnamespace ORDER BY proname"


@pytest.fixture
def observer(empty_database: str) -> Iterator[Connection]:
    with contextlib.closing(connect(empty_database, "rvq-observer")) as connection:
        yield connection


def test_the_release_before_stays_current_and_changes_nothing_when_it_starts_again(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, OLDER)
    migrate(empty_database, NEWER)
    check_history(observer, OLDER)
    assert schema_is_current(observer, OLDER)
    assert migrate(empty_database, OLDER) == NOTHING
    assert column(observer, "SELECT rvq.f()") == [5]
    assert schema_is_current(observer, NEWER)


def test_a_function_that_went_away_is_dropped_a_release_later(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, OLDER)
    assert migrate(empty_database, NEWER) == Report([], ["f", "added"], [])
    assert column(observer, NAMES) == ["added", "f", "gone"]
    assert migrate(empty_database, NEWEST) == Report([], ["f"], ["gone"])
    assert column(observer, NAMES) == ["added", "f"]


def test_a_function_that_went_away_long_ago_is_dropped_by_whoever_comes_from_there(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, OLDER)
    assert migrate(empty_database, NEWEST).dropped == ["gone"]
    assert column(observer, NAMES) == ["added", "f"]


def test_a_function_that_comes_back_is_kept(empty_database: str, observer: Connection) -> None:
    migrate(empty_database, OLDER)
    migrate(empty_database, NEWER)
    back = release(6, *NEWEST.functions.values(), function("gone", "SELECT 6"))
    assert migrate(empty_database, back).dropped == []
    assert column(observer, "SELECT rvq.gone()") == [6]


def test_a_migration_of_the_next_release_leaves_the_one_before_current(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, OLDER)
    migrate(empty_database, release(5, *NEWER.functions.values(), migrations=(ONE, TWO)))
    check_history(observer, OLDER)
    assert schema_is_current(observer, OLDER)
    assert migrate(empty_database, OLDER) == NOTHING


def test_a_migration_of_the_next_release_whose_functions_failed_leaves_the_one_before_current(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, OLDER)
    broken = release(5, SqlFile("f", "nonsense"), migrations=(ONE, TWO))
    with pytest.raises(MigrationError, match="function f failed"):
        migrate(empty_database, broken)
    check_history(observer, OLDER)
    assert schema_is_current(observer, OLDER)
    assert column(observer, "SELECT rvq.f()") == [4]


def test_two_releases_apart_do_not_run_side_by_side(empty_database: str, observer: Connection) -> None:
    migrate(empty_database, OLDER)
    migrate(empty_database, NEWEST)
    assert not schema_is_current(observer, OLDER)
    for attempt in (lambda: migrate(empty_database, OLDER), lambda: check_history(observer, OLDER)):
        with pytest.raises(MigrationError, match="schema of release 6, and this code is of release 4"):
            attempt()
    assert column(observer, "SELECT rvq.f()") == [6]


def test_a_database_of_the_same_release_with_a_migration_that_we_do_not_know_is_refused(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, release(4, migrations=(ONE, TWO)))
    with pytest.raises(MigrationError, match="has migration 0002, and this code knows none after 0001"):
        migrate(empty_database, OLDER)
    assert column(observer, NAMES) == []


def test_a_release_that_changes_nothing_still_records_its_number(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, OLDER)
    same = release(5, *OLDER.functions.values())
    assert not schema_is_current(observer, same)
    assert migrate(empty_database, same) == NOTHING
    assert schema_is_current(observer, same)
    assert column(observer, "SELECT DISTINCT release FROM rvq.schema_functions") == [5]
