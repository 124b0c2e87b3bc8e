"""Fixtures of the SQL tests: calls on the main connection, and more connections for races."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.sql.calls import Calls
from tests.support.database import Database


@pytest.fixture
def rvq(database: Database) -> Calls:
    """Calls on the main connection of a clean database."""
    return Calls(database.main)


@pytest.fixture
def another(database: Database) -> Callable[[], Calls]:
    """Makes calls on one more connection, in autocommit."""
    return lambda: Calls(database.connect())


@pytest.fixture
def in_transaction(database: Database) -> Callable[[], Calls]:
    """Makes calls on one more connection whose transaction stays open until it is committed."""
    return lambda: Calls(database.connect(autocommit=False))


@pytest.fixture
def restart(database: Database, another: Callable[[], Calls]) -> Iterator[Callable[[], Calls]]:
    """Gives a session that finds the last run to be of a server before this one."""

    def forget_the_start() -> Calls:
        database.rows("UPDATE rvq.server_runs SET started_at = started_at - interval '1 year'")
        return another()

    database.rows("DELETE FROM rvq.server_runs")
    database.rows("SELECT rvq.know_server()")
    yield forget_the_start
    database.rows("DELETE FROM rvq.server_runs")
    database.move_clock(0)
    database.rows("SELECT rvq.know_server()")


@pytest.fixture
def usual_days(database: Database) -> Iterator[None]:
    """Afterwards today and the days ahead have their partitions, and no other day has."""
    yield
    database.clean()
    for parent, day in database.rows(
        "SELECT parent, day FROM rvq.list_partitions()"
        " WHERE day NOT BETWEEN rvq.day_at(rvq.clock()) AND rvq.day_at(rvq.clock()) + 7"
    ):
        database.rows(f"DROP TABLE rvq.{parent}_{day}")
    database.rows("SELECT rvq.create_partitions(7)")
    database.rows("SELECT rvq.write_readers()")
