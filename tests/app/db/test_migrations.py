"""The migration runner: order, repetition, several at once, refusals; functions that follow their files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.db import Connection, DatabaseError, connect
from app.db.migrations import LOCK, MigrationError, Report, migrate, schema_is_current
from app.db.sql_files import SqlFile, SqlFiles
from tests.support.concurrency import background, wait_until

NOTHING = Report([], [], [])


def function(name: str, body: str = "SELECT 1", signature: str = "() RETURNS int") -> SqlFile:
    text = f"CREATE OR REPLACE FUNCTION rvq.{name}{signature} LANGUAGE sql AS $$ {body} $$;"
    return SqlFile(name, text)


def files(*migrations: str, functions: tuple[SqlFile, ...] = ()) -> SqlFiles:
    numbered = {n: SqlFile(f"step_{n}", text) for n, text in enumerate(migrations, 1)}
    return SqlFiles(numbered, {file.name: file for file in functions})


ONE = "CREATE TABLE rvq.one (id int)"
TWO = "ALTER TABLE rvq.one ADD COLUMN two int"


@pytest.fixture
def observer(empty_database: str) -> Iterator[Connection]:
    with contextlib.closing(connect(empty_database, "rvq-observer")) as connection:
        yield connection


def column(connection: Connection, statement: str) -> list[object]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()] if cursor.description else []


def versions(connection: Connection) -> list[object]:
    return column(connection, "SELECT version FROM rvq.schema_migrations ORDER BY version")


@pytest.mark.versions
def test_our_own_files_apply_and_a_second_run_finds_nothing_to_do(
    empty_database: str, observer: Connection
) -> None:
    assert not schema_is_current(observer)
    report = migrate(empty_database)
    assert len(report.migrations) == len(SqlFiles.read().migrations)
    assert set(report.functions) == set(SqlFiles.read().functions)
    assert schema_is_current(observer)
    assert migrate(empty_database) == NOTHING


def test_migrations_run_in_order_and_only_the_new_ones_later(
    empty_database: str, observer: Connection
) -> None:
    assert migrate(empty_database, files(ONE)).migrations == ["0001_step_1"]
    assert not schema_is_current(observer, files(ONE, TWO))
    assert migrate(empty_database, files(ONE, TWO)).migrations == ["0002_step_2"]
    assert versions(observer) == [1, 2]


def test_many_processes_at_once_apply_everything_once(empty_database: str, observer: Connection) -> None:
    wanted = files(ONE, TWO, "INSERT INTO rvq.one VALUES (1, 2)", functions=(function("f"), function("g")))
    with ThreadPoolExecutor(8) as executor:
        reports = list(executor.map(lambda _: migrate(empty_database, wanted), range(8)))
    done = sorted(name for report in reports for name in report.migrations + report.functions)
    assert done == ["0001_step_1", "0002_step_2", "0003_step_3", "f", "g"]
    assert column(observer, "SELECT count(*) FROM rvq.one") == [1]


def test_a_migration_that_fails_leaves_nothing_of_itself_and_says_which(
    empty_database: str, observer: Connection
) -> None:
    broken = files(ONE, "CREATE TABLE rvq.two (id int); SELECT 1 / 0")
    with pytest.raises(MigrationError, match=r"migration 0002_step_2 failed: division by zero"):
        migrate(empty_database, broken)
    assert versions(observer) == [1]
    assert column(observer, "SELECT to_regclass('rvq.two')") == [None]
    migrate(empty_database, files(ONE, TWO))
    assert versions(observer) == [1, 2]


def test_a_changed_text_of_an_applied_migration_is_refused(empty_database: str) -> None:
    migrate(empty_database, files(ONE))
    with pytest.raises(MigrationError, match=r"0001_step_1 is not the one .* never be changed"):
        migrate(empty_database, files(ONE + " -- changed"))


def test_a_lock_that_is_not_to_be_had_soon_ends_the_migration(
    empty_database: str, observer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.migrations.LOCK_TIMEOUT_MS", 20)
    migrate(empty_database, files(ONE))
    column(observer, "BEGIN; SELECT FROM rvq.one")
    with pytest.raises(DatabaseError, match="55P03"):
        migrate(empty_database, files(ONE, TWO))


def test_another_process_that_migrates_is_waited_for_however_long_it_takes(
    empty_database: str, observer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.migrations.LOCK_TIMEOUT_MS", 1)
    column(observer, f"BEGIN; SELECT pg_advisory_xact_lock({LOCK})")
    blocked = (
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'rvq-migrate'"
        " AND cardinality(pg_blocking_pids(pid)) > 0"
    )
    with (
        contextlib.closing(connect(empty_database, "rvq-third")) as third,
        background(migrate, empty_database, files(ONE)) as report,
    ):
        wait_until(lambda: report.done() or column(third, blocked), "the migration waits")
        column(observer, "COMMIT")
        assert report.result(10).migrations == ["0001_step_1"]


def test_a_changed_function_replaces_the_old_one_and_only_that(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, files(ONE, functions=(function("f", "SELECT 1"), function("g"))))
    report = migrate(empty_database, files(ONE, functions=(function("f", "SELECT 2"), function("g"))))
    assert report == Report([], ["f"], [])
    assert column(observer, "SELECT rvq.f()") == [2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("() RETURNS int", "() RETURNS bigint"),
        ("(p_a int) RETURNS int", "(p_b int) RETURNS int"),
        ("(p_a int) RETURNS int", "(p_a bigint) RETURNS int"),
        ("(p_a int) RETURNS int", "(p_a int, p_b int) RETURNS int"),
        ("(p_a int) RETURNS int", "(p_a int, p_b int DEFAULT 1) RETURNS int"),
    ],
)
def test_another_signature_leaves_exactly_one_function(
    empty_database: str, observer: Connection, old: str, new: str
) -> None:
    migrate(empty_database, files(ONE, functions=(function("f", signature=old),)))
    migrate(empty_database, files(ONE, functions=(function("f", signature=new),)))
    found = column(observer, "SELECT pg_get_functiondef('rvq.f'::regproc)")
    assert len(found) == 1
    assert str(found[0]).startswith(
        f"CREATE OR REPLACE FUNCTION rvq.f{new.partition(' RETURNS')[0]}".replace("int", "integer").replace(
            "biginteger", "bigint"
        )
    )


def test_a_function_whose_file_is_gone_is_dropped(empty_database: str, observer: Connection) -> None:
    migrate(empty_database, files(ONE, functions=(function("f"), function("g"))))
    assert migrate(empty_database, files(ONE, functions=(function("g"),))) == Report([], [], ["f"])
    names = "SELECT proname FROM pg_proc WHERE pronamespace = 'rvq'::regnamespace"
    assert column(observer, names) == ["g"]


def test_functions_that_use_each_other_are_replaced_under_other_names(
    empty_database: str, observer: Connection
) -> None:
    """PostgreSQL knows what such a body uses, and drops no function that another one needs."""

    def atomic(name: str, uses: str) -> SqlFile:
        body = f"BEGIN ATOMIC SELECT rvq.{uses}(); END"
        return SqlFile(name, f"CREATE OR REPLACE FUNCTION rvq.{name}() RETURNS int LANGUAGE sql {body};")

    migrate(empty_database, files(ONE, functions=(function("a"), atomic("b", "a"), atomic("c", "b"))))
    report = migrate(
        empty_database, files(ONE, functions=(function("a2"), atomic("b2", "a2"), atomic("c", "b2")))
    )
    assert report == Report([], ["a2", "b2", "c"], ["a", "b"])
    assert column(observer, "SELECT rvq.c()") == [1]


def test_functions_may_call_each_other_in_any_order(empty_database: str, observer: Connection) -> None:
    migrate(empty_database, files(ONE, functions=(function("a", "SELECT rvq.b()"), function("b"))))
    assert column(observer, "SELECT rvq.a()") == [1]


def test_a_broken_function_changes_none_of_them(empty_database: str, observer: Connection) -> None:
    migrate(empty_database, files(ONE, functions=(function("a", "SELECT 1"),)))
    broken = SqlFile("b", "CREATE FUNCTION nonsense")
    with pytest.raises(MigrationError, match="function b failed: syntax error"):
        migrate(empty_database, files(ONE, functions=(function("a", "SELECT 2"), broken)))
    assert column(observer, "SELECT rvq.a()") == [1]


def test_a_function_file_must_define_the_function_of_its_name(empty_database: str) -> None:
    misnamed = SqlFile("a", function("b").text)
    with pytest.raises(MigrationError, match=r"a\.sql does not create rvq\.a"):
        migrate(empty_database, files(ONE, functions=(misnamed,)))


def test_a_call_that_is_under_way_does_not_hold_a_new_function_up(
    empty_database: str, observer: Connection
) -> None:
    migrate(empty_database, files(ONE, functions=(function("f", "SELECT 1"),)))
    column(observer, "BEGIN; SELECT rvq.f()")
    migrate(empty_database, files(ONE, functions=(function("f", "SELECT 2"),)))
    column(observer, "COMMIT")
    assert column(observer, "SELECT rvq.f()") == [2]
