"""`rvq doctor` says that commits wait for a standby, and that they will."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from rvq.doctor.standbys import of_standbys
from rvq.doctor.store import Store, open_store
from rvq.embedded import Cluster
from tests.support.concurrency import background, wait_until
from tests.support.database import Database


@pytest.fixture
def database(own_cluster: Cluster) -> Iterator[Database]:
    with contextlib.closing(Database(own_cluster.url("rvq"))) as database:
        yield database


@pytest.fixture
def store(own_cluster: Cluster) -> Iterator[Store]:
    with open_store(own_cluster.url("rvq")) as store:
        yield store


def name_standby(database: Database, name: str) -> None:
    database.rows(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    database.rows("SELECT pg_reload_conf()")
    wait_until(lambda: database.value("SHOW synchronous_standby_names") == name, "it is in force")


def is_told(store: Store, text: str) -> bool:
    return any(text in finding.text and finding.level == "wrong" for finding in of_standbys(store))


def test_nothing_is_said_where_no_standby_is_named(store: Store) -> None:
    assert list(of_standbys(store)) == []


def test_a_standby_that_is_named_and_not_connected_is_wrong_before_and_while_commits_wait_for_it(
    store: Store, database: Database
) -> None:
    name_standby(database, "ghost")
    wait_until(lambda: is_told(store, "none of ghost is connected"), "it is told")
    writer, stop = database.connect(), threading.Event()

    def write() -> None:
        """Once more, until the server has told its processes that a commit waits."""
        while not stop.is_set():
            database.rows("UPDATE rvq.admission SET checked_at = checked_at", on=writer)

    with background(write) as writes:
        wait_until(lambda: is_told(store, "commits wait for ghost"), "the wait is told", 60)
        stop.set()
        name_standby(database, "")
        writes.result(60)
    assert list(of_standbys(store)) == []
