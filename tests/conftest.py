"""One PostgreSQL for the whole run, one database for each test process, a clean one for each test.

    def test_something(database: Database) -> None:
        database.rows("SELECT * FROM rvq.create_tasks(...)")

After every test that used `database` or `conn`, all counters are compared with the truth.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest

from app.db import Connection
from app.db.migrations import migrate
from rvq.embedded import Cluster, throwaway_cluster
from tests.support.database import Database
from tests.support.server import VERSION, Server, running_server

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
SERVER = pytest.StashKey[Server]()
STACK = pytest.StashKey[contextlib.ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STACK] = contextlib.ExitStack()
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    if workerinput:
        config.stash[SERVER] = Server(workerinput["admin_url"], workerinput["prefix"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the controller, once for each worker: all of them get the same server."""
    server = _server(node.config)
    node.workerinput.update(admin_url=server.admin_url, prefix=server.prefix)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[STACK].close()


def _server(config: pytest.Config) -> Server:
    """The run's server, started when first asked for, and stopped by the process that started it."""
    if SERVER not in config.stash:
        config.stash[SERVER] = config.stash[STACK].enter_context(running_server())
    return config.stash[SERVER]


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Server:
    return _server(pytestconfig)


@pytest.fixture(scope="session")
def database_url(server: Server) -> Iterator[str]:
    """This process's migrated database. No test may deadlock in it, and that is checked at the end."""
    name = f"{server.prefix}_{WORKER or 'main'}"
    url = server.create_database(name, server.template)
    yield url
    deadlocks = _deadlocks(url)
    server.drop_database(name)
    assert deadlocks == 0, f"{deadlocks} deadlocks happened in this run"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The migrated database, empty, with the clock right."""
    database = Database(database_url)
    database.clean()
    yield database
    try:
        drift = database.drift()
        database.clean()
    finally:
        database.close()
    assert drift == [], "counters differ from the truth (counter, counted, truth)"


@pytest.fixture
def conn(database: Database) -> Connection:
    """A connection in autocommit to the clean database."""
    return database.main


@pytest.fixture
def empty_database(server: Server) -> Iterator[str]:
    """The URL of a database of the test's own, with nothing in it: for migrations and for provoked errors."""
    name = f"{server.prefix}_{WORKER or 'main'}_empty"
    yield server.create_database(name)
    server.drop_database(name)


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A server of the test's own, to kill or to move its clock; it has a migrated database `rvq`."""
    with throwaway_cluster(version=VERSION) as cluster:
        cluster.create_database("rvq")
        migrate(cluster.url("rvq"))
        yield cluster


def _deadlocks(url: str) -> int:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        row = cursor.fetchone()
        return int(row[0]) if row else 0
