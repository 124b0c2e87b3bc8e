"""A dump is restored over the database that it was made of, while a session of RVQ's goes on."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from app.db.migrations import migrate
from app.db.partitions import create_partitions
from rvq.embedded import Cluster, throwaway_cluster
from tests.sql.calls import Calls
from tests.support.concurrency import wait_until
from tests.support.server import VERSION

EMPTY_ALL = """
DO $$ BEGIN
    EXECUTE (SELECT 'TRUNCATE ' || string_agg(c.oid::regclass::text, ', ') FROM pg_class AS c
              WHERE c.relnamespace = 'rvq'::regnamespace AND c.relkind IN ('r', 'p'));
END $$"""
FEED = "SELECT run, xid::text::bigint, id FROM rvq.read_feed(%s, %s, %s, 100)"
WAYS = {
    "whole": ("DROP SCHEMA rvq CASCADE", ()),
    "data": (EMPTY_ALL, ("--data-only",)),
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with throwaway_cluster(version=VERSION) as cluster:
        cluster.create_database("rvq")
        migrate(cluster.url("rvq"))
        create_partitions(cluster.url("rvq"))
        yield cluster


@pytest.fixture
def rvq(cluster: Cluster) -> Iterator[Calls]:
    connection = psycopg2.connect(cluster.url("rvq"))
    connection.autocommit = True
    with contextlib.closing(connection):
        yield Calls(connection)


def run(cluster: Cluster, program: str, *arguments: str | Path) -> None:
    command = [cluster.install.program(program), "-d", cluster.url("rvq"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def end_one(rvq: Calls) -> int:
    task_id = rvq.create()
    rvq.succeed(rvq.claim_one())
    return task_id


def read_to_the_end(rvq: Calls, count: int) -> tuple[int, int, int]:
    """Wait for that many events in the feed; return the cursor behind them."""
    wait_until(lambda: len(rvq.rows(FEED, (0, 0, 0))) == count, f"{count} events", 60)
    place, xid, event = rvq.rows(FEED, (0, 0, 0))[-1]
    return place, xid, event


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize("way", WAYS)
def test_a_dump_that_is_restored_over_its_database_is_noticed_by_a_session_that_goes_on(
    cluster: Cluster, rvq: Calls, tmp_path: Path, way: str
) -> None:
    kept = [end_one(rvq), end_one(rvq)]
    seen = read_to_the_end(rvq, 2)
    run(cluster, "pg_dump", "-Fc", "-f", tmp_path / "dump")
    lost = [end_one(rvq) for _ in range(5)]
    seen_more = read_to_the_end(rvq, 7)
    statement, options = WAYS[way]
    rvq.rows(statement)
    run(cluster, "pg_restore", "--single-transaction", *options, tmp_path / "dump")
    new = [end_one(rvq) for _ in range(10)]
    assert min(new) > max(lost)
    assert [row[0] for row in rvq.rows("SELECT how FROM rvq.server_runs ORDER BY first_xid")] == [
        "installed",
        "restored",
    ]
    read_to_the_end(rvq, 12)
    assert [row[2] for row in rvq.rows(FEED, seen)] == new
    assert [row[2] for row in rvq.rows(FEED, (0, 0, 0))] == kept + new
    assert [row[1:] for row in rvq.rows(FEED, seen_more)] == [(None, None)]
