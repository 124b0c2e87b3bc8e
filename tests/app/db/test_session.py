"""What a session pins, what a start refuses, and what the URL's own options still do."""

from __future__ import annotations

import contextlib
from typing import Any

import psycopg2
import pytest

from app.db import DatabaseUnavailable, DatabaseUnfit, Pool, connect
from app.db.fitness import require_fit
from app.db.migrations import migrate
from app.db.session import PINNED, TIMEOUTS, startup_options
from tests.support.server import Server


def current(url: str, name: str) -> Any:
    with contextlib.closing(connect(url, "rvq-test")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", (name,))
        row = cursor.fetchone()
        return row and row[0]


def alter(url: str, setting: str) -> None:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{connection.info.dbname}" SET {setting}')


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused_with_a_sentence(
    server: Server, encoding: str, empty_database: str
) -> None:
    name = empty_database.rpartition("/")[2].partition("?")[0]
    server.create_database(name, options=f"ENCODING '{encoding}' LOCALE 'C'")
    for start in (migrate, lambda url: Pool(url, 1, "rvq-test").open()):
        with pytest.raises(DatabaseUnfit, match=f"has the encoding {encoding}.*RVQ needs UTF8"):
            start(empty_database)


@pytest.mark.parametrize("name", PINNED)
def test_what_is_pinned_wins_over_the_database_and_the_url(empty_database: str, name: str) -> None:
    other = {"on": "off", "off": "on", "UTC": "Asia/Kathmandu", "ISO, MDY": "German"}
    odd = (
        other.get(PINNED[name])
        or {
            "default_transaction_isolation": "serializable",
            "search_path": "public",
            "intervalstyle": "iso_8601",
            "bytea_output": "escape",
            "extra_float_digits": "-3",
            "plan_cache_mode": "force_custom_plan",
            "plpgsql.extra_errors": "all",
            "client_min_messages": "error",
            "idle_session_timeout": "1000",
        }[name]
    )
    alter(empty_database, f"{name} = '{odd}'")
    url = f"{empty_database}{'&' if '?' in empty_database else '?'}options=-c%20{name}%3D{odd}"
    assert current(url, name) == PINNED[name]


def test_options_of_the_url_and_of_the_environment_are_applied(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=3MB -c lock_timeout=77")
    assert current(empty_database, "work_mem") == "3MB"
    assert current(empty_database, "lock_timeout") == "5s", "ours are behind them, and win"
    separator = "&" if "?" in empty_database else "?"
    assert current(f"{empty_database}{separator}options=-c%20work_mem%3D2MB", "work_mem") == "2MB"


def test_what_a_pooler_drops_is_refused_with_the_statements_that_help(empty_database: str) -> None:
    alter(empty_database, "default_transaction_isolation = 'serializable'")
    with contextlib.closing(psycopg2.connect(empty_database)) as bare:
        bare.autocommit = True
        with pytest.raises(DatabaseUnfit, match="SET default_transaction_isolation = 'read committed'"):
            require_fit(bare)


@pytest.mark.parametrize("missing", TIMEOUTS)
def test_behind_a_pooler_that_drops_all_pins_the_defaults_of_postgresql_and_timeouts_are_fit(
    empty_database: str, missing: str
) -> None:
    for name in TIMEOUTS:
        if name != missing:
            alter(empty_database, f"{name} = '7s'")
    with contextlib.closing(psycopg2.connect(empty_database)) as bare:
        bare.autocommit = True
        with pytest.raises(DatabaseUnfit, match=f"SET {missing} = '{TIMEOUTS[missing]}ms'"):
            require_fit(bare)
        with bare.cursor() as cursor:
            cursor.execute(f"SET {missing} = '1min'")
        require_fit(bare)


def test_a_read_only_database_is_a_sentence_at_the_start(empty_database: str) -> None:
    alter(empty_database, "default_transaction_read_only = on")
    with pytest.raises(DatabaseUnavailable, match="takes no writes: default_transaction_read_only is on"):
        migrate(empty_database)


def test_asynchronous_commits_are_told_at_the_start(
    empty_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    alter(empty_database, "synchronous_commit = off")
    migrate(empty_database)
    assert "synchronous_commit is off" in caplog.text


def test_blanks_and_backslashes_of_values_are_escaped() -> None:
    options = startup_options("postgresql:///x", {"statement_timeout": 5})
    assert options.startswith("-c default_transaction_isolation=read\\ committed ")
    assert options.endswith("-c statement_timeout=5")
