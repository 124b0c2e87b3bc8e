"""Programs that start on a database they can't work with say so in a sentence, never in a traceback."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest

from app.db.migrations import migrate
from app.ids import FIRST_DAY, LAST_DAY
from rvq.embedded import Cluster
from rvq.local.settings import child_environ
from tests.app.process import Gunicorn
from tests.app.rig import environ
from tests.dispatcher.rig import environment, launched
from tests.support.concurrency import wait_until
from tests.support.roles import PASSWORD, as_role, execute
from tests.support.server import Server

CONFIGURATION = 78
HOST = "127.0.0.1:9"
YEAR = 366 * 86_400


@pytest.fixture
def latin1(server: Server) -> Iterator[str]:
    name = f"{server.prefix}_latin1"
    yield server.create_database(name, options="ENCODING 'LATIN1' LOCALE 'C'")
    server.drop_database(name)


def rvq(arguments: Sequence[str], database_url: str) -> tuple[int, str]:
    """Run the command as a process; return its status and all it says."""
    ran = subprocess.run(
        [sys.executable, "-m", "rvq.__main__", *arguments],
        env=child_environ(environ(database_url)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def starts(database_url: str, folder: Path) -> Iterator[tuple[int, str]]:
    """The status and the words of everything that starts on a database."""
    yield rvq(["migrate"], database_url)
    yield rvq(["doctor"], database_url)
    api = Gunicorn(environ(database_url), folder)
    yield api.wait(), api.log
    with launched(environment(database_url, HOST)) as dispatcher:
        yield dispatcher.wait(60), dispatcher.log


def test_everything_that_starts_on_latin1_says_that_it_needs_utf8(latin1: str, tmp_path: Path) -> None:
    found = list(starts(latin1, tmp_path))
    assert [status for status, _ in found] == [1, 1, 1, CONFIGURATION]
    for _, words in found:
        assert "has the encoding LATIN1" in words
        assert "Traceback" not in words


def test_everything_that_starts_with_a_wrong_password_or_database_says_postgresqls_reason(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    wrong = {
        as_role(
            own_cluster.url("rvq"), "rvq", "wrong-word"
        ): 'password authentication failed for user "rvq". What',
        own_cluster.url("nowhere"): 'database "nowhere" does not exist. What to do: CREATE DATABASE',
    }
    for url, reason in wrong.items():
        found = list(starts(url, tmp_path))
        assert [status for status, _ in found] == [1, 1, 1, CONFIGURATION]
        for _, words in found:
            assert reason in words.replace('\\"', '"')
            assert "Traceback" not in words
            assert (urlsplit(url).password or "") not in words


def test_a_dispatcher_waits_until_its_role_may_have_connections(own_cluster: Cluster) -> None:
    url = own_cluster.url("rvq")
    execute(url, f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 0")
    migrate(url, grants={"dispatcher": ["plain"]})
    with launched(environment(as_role(url, "plain"), HOST)) as dispatcher:
        words = 'waiting for the database: connection to server at "127.0.0.1"'
        wait_until(
            lambda: words in dispatcher.log and "too many connections" in dispatcher.log, "it waits", 60
        )
        execute(url, "ALTER ROLE plain CONNECTION LIMIT 10")
        dispatcher.wait_until_ready()
        assert PASSWORD not in dispatcher.log
        assert dispatcher.stop() == 0


def alter(url: str, change: str) -> None:
    connection = psycopg2.connect(url, options="-c default_transaction_read_only=off")
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{connection.info.dbname}" {change}')


def test_on_a_read_only_database_the_api_says_so_and_the_dispatcher_waits(
    empty_database: str, tmp_path: Path
) -> None:
    migrate(empty_database)
    alter(empty_database, "SET default_transaction_read_only = on")
    api = Gunicorn(environ(empty_database), tmp_path)
    assert api.wait() == 1
    status, words = rvq(["migrate"], empty_database)
    assert status == 1
    for said in (api.log, words):
        assert "takes no writes: default_transaction_read_only is on" in said
        assert "Traceback" not in said
    with launched(environment(empty_database, HOST)) as dispatcher:
        wait_until(
            lambda: "waiting for the database: the database takes no writes" in dispatcher.log, "it waits", 60
        )
        alter(empty_database, "RESET default_transaction_read_only")
        dispatcher.wait_until_ready()
        assert "Traceback" not in dispatcher.log
        assert dispatcher.stop() == 0


@pytest.mark.parametrize("offset", [-60 * YEAR, 100 * YEAR], ids=["before 2024", "after the last day"])
def test_where_the_clock_can_not_be_right_the_api_says_so_and_the_dispatcher_waits(
    empty_database: str, tmp_path: Path, offset: int
) -> None:
    migrate(empty_database)
    alter(empty_database, f"SET rvq.clock_offset = '{offset}'")
    api = Gunicorn(environ(empty_database), tmp_path)
    assert api.wait() == 1
    for arguments in (["migrate"], ["doctor"]):
        status, words = rvq(arguments, empty_database)
        assert status == 1
        assert f"from {FIRST_DAY} to {LAST_DAY}" in words
        assert "Traceback" not in words
    assert f"ids can only say days from {FIRST_DAY} to {LAST_DAY}: set the clock" in api.log
    assert "Traceback" not in api.log
    with launched(environment(empty_database, HOST)) as dispatcher:
        wait_until(
            lambda: "waiting for the database: the database's clock shows" in dispatcher.log, "it waits", 60
        )
        alter(empty_database, "RESET rvq.clock_offset")
        dispatcher.wait_until_ready()
        assert "Traceback" not in dispatcher.log
        assert dispatcher.stop() == 0
