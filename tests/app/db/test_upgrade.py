"""A database of 0.1.0, with work in it, becomes one of this release: nothing of it is lost or stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg2.errors import ObjectNotInPrerequisiteState

from app.db.migrations import migrate
from app.db.sql_files import SqlFile, SqlFiles
from rvq.doctor.store import open_store
from tests.sql.calls import URL, Calls
from tests.support.concurrency import wait_until
from tests.support.database import Database

MIGRATIONS_OF_0_1_0 = 5
FUNCTIONS_OF_0_1_0 = Path(__file__).with_name("functions_of_0_1_0.sql")


def older_files() -> SqlFiles:
    """Return what 0.1.0 had."""
    migrations = SqlFiles.read().migrations
    _, *named = FUNCTIONS_OF_0_1_0.read_text().split("\n-- function ")
    functions = [SqlFile(*one.split("\n", 1)) for one in named]
    return SqlFiles(
        {number: migrations[number] for number in range(1, MIGRATIONS_OF_0_1_0 + 1)},
        {file.name: file for file in functions},
        release=0,
    )


@pytest.fixture
def older(empty_database: str) -> Iterator[Database]:
    """A database of 0.1.0, with partitions."""
    migrate(empty_database, older_files())
    database = Database(empty_database)
    for ledger in ("migrations", "functions"):
        database.rows(f"ALTER TABLE rvq.schema_{ledger} DROP COLUMN release")
    database.rows("SELECT rvq.create_partitions(1)")
    yield database
    database.close()


@pytest.mark.versions
def test_leases_retries_deliveries_and_cursors_go_on_after_the_upgrade(older: Database) -> None:
    rvq = Calls(older.main)
    ended = rvq.create(1, webhook=URL, key="key", body_hash=b"x")
    rvq.succeed(rvq.claim_one())
    feed = "SELECT xid::text, id FROM rvq.list_events(%s::text::xid8, %s, 10)"
    wait_until(lambda: rvq.rows(feed, ("0", 0)), "the event is in the feed", 60)
    (cursor,) = rvq.rows(feed, ("0", 0))
    (delivery,) = rvq.claim_deliveries()
    held, retried, released, new = (rvq.create(queue=q) for q in ("held", "retried", "released", "new"))
    fast = rvq.create(queue="fast", policy="fail_fast")
    held_lease, fast_lease = rvq.claim_one(queues=["held"]), rvq.claim_one(queues=["fast"])
    rvq.fail(rvq.claim_one(queues=["retried"]), retry_after=0)
    rvq.release(rvq.claim_one(queues=["released"]))

    migrate(older.url)

    assert rvq.succeed(held_lease) == ["succeeded"]
    assert rvq.fail_for_good(fast_lease) == ["failed"]
    taken = rvq.claim(10, queues=["retried", "released", "new"])
    assert [(lease.id - 1, lease.attempt) for lease in taken] == [(retried, 2), (released, 1), (new, 1)]
    assert rvq.succeed(*taken) == ["succeeded"] * 3
    assert rvq.settle(delivery) == [ended]
    assert rvq.post(1, key="key", body_hash=b"x").outcome == "replayed"
    assert {rvq.task(task).status for task in (ended, held, retried, released, new)} == {"succeeded"}
    assert rvq.task(fast).status == "failed"
    wait_until(lambda: len(rvq.rows(feed, cursor)) == 5, "the later events are in the feed", 60)
    assert rvq.redeliver(ended) == ["redelivered"]
    assert older.drift() == []


def test_the_upgrade_leaves_the_functions_of_the_files_and_the_generated_ones(older: Database) -> None:
    report = migrate(older.url)
    assert set(report.dropped) == set(older_files().functions) - set(SqlFiles.read().functions)
    there = older.column("SELECT proname::text FROM pg_proc WHERE pronamespace = 'rvq'::regnamespace")
    assert sorted(there) == sorted([*SqlFiles.read().functions, "payloads_of", "bodies_of"])


def test_a_publication_that_has_all_tables_stops_nothing_after_the_upgrade(older: Database) -> None:
    without_key = "SELECT format('rvq.%s_%s', parent, day) FROM rvq.list_partitions() WHERE parent = ANY (%s)"
    for partition in older.column(without_key.replace("%s", "%%s", 2), (["outcomes", "delivery_attempts"],)):
        older.rows(f"ALTER TABLE {partition} REPLICA IDENTITY DEFAULT")
    older.rows("CREATE PUBLICATION everything FOR ALL TABLES")
    rvq = Calls(older.main)
    rvq.create()
    rvq.succeed(rvq.claim_one())
    with pytest.raises(ObjectNotInPrerequisiteState, match="does not have a replica identity"):
        rvq.fold()

    migrate(older.url)

    rvq.fold()
    older.rows("UPDATE rvq.outcomes SET worker_id = 'w'")
    older.rows("DELETE FROM rvq.delivery_attempts")
    with open_store(older.url) as store:
        ((_, has_changes, _, lacking),) = store.publications()
    assert (has_changes, lacking) == (True, [])
