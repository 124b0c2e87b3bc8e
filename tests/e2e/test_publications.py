"""The whole life under a publication that has all tables: updates and deletes ask for a replica identity."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from app.db import Pool
from app.db.migrations import migrate
from rvq.doctor.publications import of_publications
from rvq.doctor.store import open_store
from tests.app.rig import make_caller
from tests.conftest import WORKER
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.rig import Tasks
from tests.dispatcher.steps import stepping
from tests.e2e.test_brought_along import live, maintain, webhooks
from tests.support.concurrency import wait_until
from tests.support.database import Database
from tests.support.roles import execute
from tests.support.server import Server

EVERYTHING = [
    "FOR ALL TABLES",
    "FOR TABLES IN SCHEMA rvq",
    "FOR ALL TABLES WITH (publish_via_partition_root)",
]
FACTS = "FOR TABLE rvq.tasks, rvq.events WITH (publish = 'insert', publish_via_partition_root)"
DAY = 86_400


@pytest.fixture
def own_database(server: Server) -> Iterator[str]:
    name = f"{server.prefix}_{WORKER or 'main'}_published"
    yield server.create_database(name)
    server.drop_database(name)


def days(tasks: Tasks) -> set[int]:
    return {row[0] for row in tasks.rows("SELECT day FROM rvq.list_partitions()")}


def found(url: str) -> list[tuple[str, str]]:
    with open_store(url) as store:
        return [(finding.level, finding.text) for finding in of_publications(store)]


@pytest.mark.parametrize("what", EVERYTHING)
def test_a_task_lives_from_its_post_to_a_verified_webhook_and_to_its_retention(
    own_database: str, what: str
) -> None:
    execute(own_database, "CREATE SCHEMA rvq")
    execute(own_database, f"CREATE PUBLICATION everything {what}")
    migrate(own_database)
    pool = Pool(own_database, 2, "rvq-api-test")
    pool.open()
    with contextlib.closing(pool), stepping(own_database) as steps, Receiver() as receiver:
        live(make_caller(own_database, pool, **webhooks(receiver)), steps, receiver)
    tasks, database = Tasks(own_database), Database(own_database)
    (event,) = tasks.finish("http://127.0.0.1:9/never")
    first = days(tasks)
    with contextlib.closing(database):
        database.move_clock(100 * DAY)
        with stepping(own_database) as steps:
            maintain(steps)
            assert tasks.ledger(event)[-1][2] == "dead"
        database.move_clock(140 * DAY)
    with stepping(own_database) as steps:

        def drop_one() -> bool:
            steps.runner("drop_expired_partitions").step()
            return not first & days(tasks)

        wait_until(drop_one, "the first days are dropped", 60)
        assert steps.pool.value("SELECT rvq.repair_counters()") == 0
        steps.pool.rows("SELECT rvq.reset()")


def test_the_doctor_names_publications_and_what_they_stop(own_database: str) -> None:
    migrate(own_database)
    assert found(own_database) == []
    execute(own_database, f"CREATE PUBLICATION facts {FACTS}")
    execute(own_database, "CREATE PUBLICATION everything FOR ALL TABLES")
    everything, facts = found(own_database)
    assert (everything[0], facts) == ("advice", ("ok", "facts has 2 of RVQ's tables, inserts only"))
    assert "with their updates and deletes" in everything[1]
    execute(own_database, "CREATE TABLE rvq.more (id integer)")
    execute(own_database, "ALTER TABLE rvq.queues REPLICA IDENTITY NOTHING")
    stops = (
        "everything stops updates and deletes of rvq.more, rvq.queues: ALTER TABLE ... REPLICA IDENTITY FULL"
    )
    assert found(own_database)[0] == ("wrong", stops)


def test_every_table_has_a_replica_identity(database: Database) -> None:
    """A new table needs a primary key, or REPLICA IDENTITY FULL; a publication would stop it."""
    lacking = """
        SELECT c.oid::regclass::text FROM pg_class AS c
         WHERE c.relnamespace = 'rvq'::regnamespace AND c.relkind = 'r' AND c.relreplident <> 'f'
           AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary)"""
    assert database.column(lacking) == []
