"""The operations that take whole tables, or wait for others without a lock: they hold nothing meanwhile."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from app.db import Connection
from tests.locks.scene import DAY, LATER, Scene
from tests.sql.calls import Calls
from tests.support.concurrency import background, wait_until, wait_until_blocked
from tests.support.database import Database
from tests.support.lock_order import Lock, held

# Locks that keep readers or writers of a table out, on tables of ours.
STRONG = """
SELECT c.relname FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
 WHERE l.pid = %s AND l.granted AND c.relnamespace = 'rvq'::regnamespace
   AND l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')"""
SLEEPS = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
LOCKS = "SELECT count(*) FROM pg_locks WHERE pid = %s AND locktype IN ('advisory', 'tuple') AND granted"
TABLES = ["open_tasks", "open_sub_tasks", "counter_deltas", "due_deliveries"]


def sleeping(database: Database, connection: Connection) -> None:
    """Until that connection is in pg_sleep."""
    pid = connection.info.backend_pid
    wait_until(lambda: database.value(SLEEPS, (pid,)), f"backend {pid} sleeps")


@pytest.mark.parametrize("table", TABLES)
def test_reset_waits_for_a_reader_without_keeping_any_table(database: Database, table: str) -> None:
    rvq = Calls(database.main)
    rvq.create(webhook="https://hooks.example/")
    rvq.succeed(*rvq.claim(1))
    rvq.create(2)
    reader, resetting = database.connect(autocommit=False), database.connect()
    database.rows(f"LOCK TABLE rvq.{table} IN ACCESS SHARE MODE", on=reader)
    with background(database.rows, "SELECT rvq.reset()", on=resetting) as future:
        kept = {table, *TABLES}
        for _ in range(20):
            sleeping(database, resetting)
            kept &= set(database.column(STRONG, (resetting.info.backend_pid,)))
        assert not future.done()
        assert kept == set()
        reader.rollback()
        future.result(10)
    assert database.value("SELECT count(*) FROM rvq.open_tasks") == 0


def test_reset_waits_for_a_writer_before_it_has_touched_a_table(database: Database) -> None:
    writer, resetting = database.connect(autocommit=False), database.connect()
    Calls(writer).create(1)
    with background(database.rows, "SELECT rvq.reset()", on=resetting) as future:
        wait_until_blocked(database.main, resetting, writer)
        assert database.column(STRONG, (resetting.info.backend_pid,)) == []
        writer.commit()
        future.result(10)
    assert Calls(database.main).tasks() == []


def test_a_writer_waits_for_reset_before_it_has_locked_anything(database: Database) -> None:
    rvq = Calls(database.main)
    rvq.create(2)
    leases = rvq.claim(2)
    resetting, writer = database.connect(autocommit=False), Calls(database.connect())
    database.rows("SELECT rvq.reset()", on=resetting)
    with background(writer.succeed, *leases) as future:
        wait_until_blocked(database.main, writer.connection, resetting)
        assert database.value(LOCKS, (writer.connection.info.backend_pid,)) == 0
        resetting.commit()
        assert future.result(10) == ["unknown", "unknown"]


def test_floors_wait_for_those_inside_without_holding_a_lock(database: Database) -> None:
    rvq = Calls(database.main)
    rvq.create(1)
    rvq.fold()
    writer, raising = database.connect(autocommit=False), database.connect()
    Calls(writer).create(1)
    with background(
        database.value, "SELECT raised FROM rvq.raise_claim_floors('', 1000)", on=raising
    ) as future:
        sleeping(database, raising)
        assert database.value(LOCKS, (raising.info.backend_pid,)) == 0
        writer.commit()
        assert future.result(10) == 1


@pytest.mark.parametrize("parent", ["tasks", "sub_tasks", "outcomes", "events", "delivery_attempts"])
def test_retention_gives_up_instead_of_waiting_for_a_reader(
    stage: tuple[Database, Scene], parent: str
) -> None:
    """The reader is there all the time: if retention waited for it, this would not end."""
    database, scene = stage
    retiring, reader = database.connect(autocommit=False), database.connect(autocommit=False)
    database.rows("SET rvq.clock_offset = %s", (str(scene.noon + LATER),), on=retiring)
    database.rows(f"LOCK TABLE rvq.{parent} IN ACCESS SHARE MODE", on=reader)
    while database.value("SELECT rvq.drop_expired_partitions(30)", on=retiring):
        pass
    left = database.column("SELECT parent FROM rvq.list_expired_partitions(30)", on=retiring)
    assert left == [parent]
    retiring.rollback()
    reader.rollback()


def test_retention_passes_over_idempotency_keys_that_are_held(stage: tuple[Database, Scene]) -> None:
    database, scene = stage
    retiring, other = database.connect(autocommit=False), database.connect(autocommit=False)
    database.rows("SET rvq.clock_offset = %s", (str(scene.noon + 40 * DAY),), on=retiring)
    every = database.value("SELECT count(*) FROM rvq.idempotency_keys")
    with held(other, Lock("idempotency_keys", ("key-3",))):
        forgotten: Future[int]
        with background(
            database.value, "SELECT rvq.delete_idempotency_keys(%s, 100)", (day_of(scene),), on=retiring
        ) as forgotten:
            assert forgotten.result(10) == every - 1
    retiring.rollback()


def day_of(scene: Scene) -> int:
    """The day number of the scene's noon."""
    return scene.tasks["all"] >> 48
