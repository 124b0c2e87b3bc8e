"""What holds vacuum back: each kind for real, and admission, doctor and metrics that name the same one.

A kind holds when VACUUM itself says that it can't remove a row which is dead.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest
from psycopg2.errors import QueryCanceled

from app.db.migrations import migrate
from rvq.doctor import checks
from rvq.doctor.store import Store
from rvq.embedded import Cluster, throwaway_cluster
from tests.dispatcher.steps import stepping
from tests.support.concurrency import background, wait_until
from tests.support.database import Database
from tests.support.roles import PASSWORD, as_role, execute
from tests.support.server import VERSION
from tests.support.standby import standby_of

# Those of a standby mean nothing on the primary, of which it is a copy.
SETTINGS: dict[str, str | int | float] = {
    "wal_level": "logical",
    "max_prepared_transactions": 5,
    "autovacuum": "off",
    "hot_standby_feedback": "on",
    "wal_receiver_status_interval": 1,
    "wal_retrieve_retry_interval": 100,
    "primary_slot_name": "of_the_standby",
}
NO_SLOT = "standby walreceiver without a slot"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server that has prepared transactions and logical slots, and vacuums only when it is told to."""
    with throwaway_cluster(version=VERSION, settings=SETTINGS) as cluster:
        cluster.create_database("rvq")
        migrate(cluster.url("rvq"))
        cluster.create_database("other")
        yield cluster


@pytest.fixture
def rvq(cluster: Cluster) -> Iterator[Database]:
    rvq = Database(cluster.url("rvq"))
    yield rvq
    rvq.close()


def other_session(rvq: Database, *statements: str) -> psycopg2.extensions.connection:
    connection = rvq.connect(autocommit=False)
    for statement in statements:
        rvq.rows(statement, on=connection)
    return connection


def vacuum_is_held_back(rvq: Database) -> bool:
    """Make a dead row in one of RVQ's tables, and ask VACUUM whether it could remove it."""
    rvq.rows("INSERT INTO rvq.set_aside VALUES ('test', 1, 'test', now())")
    rvq.rows("DELETE FROM rvq.set_aside")
    connection = rvq.connect()
    del connection.notices[:]
    rvq.rows("VACUUM (VERBOSE, TRUNCATE false) rvq.set_aside", on=connection)
    said = "\n".join(connection.notices)
    connection.close()
    found = re.search(r"(\d+) are dead but not yet removable", said)
    assert found, said
    return int(found.group(1)) > 0


def holders(rvq: Database) -> list[tuple[str, str]]:
    return [(kind, name) for kind, name in rvq.rows("SELECT kind, holder FROM rvq.list_horizon_holders()")]


def check(rvq: Database, steps_url: str) -> tuple[str | None, list[str], dict[str, float]]:
    """Return what admission, the doctor and the metrics say."""
    refusal = rvq.value("SELECT rvq.check_admission()")
    found = [one.text for one in checks.of_vacuum(Store(rvq.main)) if one.what == "oldest transaction"]
    with stepping(steps_url) as steps:
        steps.runner("report").step()
        samples = [
            s for m in steps.metrics.registry.collect() if m.name == "rvq_horizon_seconds" for s in m.samples
        ]
    return refusal, found, {sample.labels["kind"]: sample.value for sample in samples}


def assert_all_name(rvq: Database, kind: str, name: str) -> None:
    """The bound is nothing, so every holder is too old; an hour passes for those that have no start."""
    rvq.rows("UPDATE rvq.admission SET max_transaction_age = '0'")
    rvq.rows("SELECT rvq.check_admission()")
    rvq.move_clock(30)
    rvq.rows("SELECT rvq.check_admission()")
    rvq.move_clock(3630)
    refusal, found, metrics = check(rvq, rvq.url)
    assert refusal is not None
    assert name in refusal
    assert any(name in text for text in found)
    assert metrics[kind] > 0
    if kind in ("slot", "standby"):
        assert 3590 < metrics[kind] < 3640


@contextlib.contextmanager
def clock_and_bounds_are_put_back(rvq: Database) -> Iterator[None]:
    try:
        yield
    finally:
        rvq.move_clock(0)
        rvq.rows("DELETE FROM rvq.xid_times")
        rvq.rows("DELETE FROM rvq.admission")
        rvq.rows("INSERT INTO rvq.admission DEFAULT VALUES")


Hold = Callable[[Database], Any]
HOLDING: dict[str, Hold] = {
    "a snapshot": lambda rvq: other_session(
        rvq, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM rvq.queues"
    ),
    "a write": lambda rvq: other_session(rvq, "INSERT INTO rvq.set_aside VALUES ('test', 2, 'test', now())"),
    "a cursor": lambda rvq: other_session(rvq, "DECLARE c CURSOR FOR SELECT 1 FROM rvq.queues", "FETCH c"),
}
NOT_HOLDING: dict[str, Hold] = {
    "nothing": lambda rvq: rvq.rows("SELECT 1"),
    "an open transaction without a snapshot": lambda rvq: other_session(rvq, "SELECT 1 FROM rvq.queues"),
    "a slot of logical decoding": lambda rvq: rvq.rows(
        "SELECT pg_create_logical_replication_slot('catalogs', 'pgoutput')"
    ),
    "a slot that no standby has used": lambda rvq: rvq.rows(
        "SELECT pg_create_physical_replication_slot('unused', true)"
    ),
}


@pytest.mark.parametrize("name", HOLDING)
def test_a_session_that_holds_vacuum_back_is_named_with_its_pid(rvq: Database, name: str) -> None:
    connection = HOLDING[name](rvq)
    with contextlib.closing(connection), clock_and_bounds_are_put_back(rvq):
        assert vacuum_is_held_back(rvq)
        who = f"pid {connection.info.backend_pid} of rvq-test, idle in transaction"
        assert holders(rvq) == [("session", who)]
        assert_all_name(rvq, "session", who)
    wait_until(lambda: holders(rvq) == [], "the session is gone")


@pytest.mark.parametrize("name", NOT_HOLDING)
def test_what_does_not_hold_vacuum_back_is_no_holder(rvq: Database, name: str) -> None:
    held = NOT_HOLDING[name](rvq)
    try:
        assert not vacuum_is_held_back(rvq)
        assert holders(rvq) == []
        assert rvq.value("SELECT rvq.check_admission()") is None
    finally:
        if isinstance(held, psycopg2.extensions.connection):
            held.close()
        rvq.rows("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def test_a_prepared_transaction_is_named_with_its_gid(rvq: Database) -> None:
    connection = other_session(rvq, "INSERT INTO rvq.set_aside VALUES ('test', 2, 'test', now())")
    rvq.rows("PREPARE TRANSACTION 'left behind'", on=connection)
    with clock_and_bounds_are_put_back(rvq):
        try:
            assert vacuum_is_held_back(rvq)
            assert holders(rvq) == [("prepared", "prepared transaction left behind")]
            assert_all_name(rvq, "prepared", "prepared transaction left behind")
        finally:
            rvq.rows("ROLLBACK PREPARED 'left behind'")


def test_a_prepared_transaction_of_another_database_holds_nothing_here(
    rvq: Database, cluster: Cluster
) -> None:
    with contextlib.closing(psycopg2.connect(cluster.url("other"))) as other, other.cursor() as cursor:
        cursor.execute("CREATE TABLE t ()")
        cursor.execute("PREPARE TRANSACTION 'elsewhere'")
        assert not vacuum_is_held_back(rvq)
        assert holders(rvq) == []
    execute(cluster.url("other"), "ROLLBACK PREPARED 'elsewhere'")


def test_a_vacuum_is_no_holder_however_long_it_takes(rvq: Database) -> None:
    rvq.rows("INSERT INTO rvq.set_aside SELECT 'test', i, 'test', now() FROM generate_series(1, 100000) AS i")
    rvq.rows("DELETE FROM rvq.set_aside")
    slow = rvq.connect()
    for setting in ("vacuum_cost_delay = 100", "vacuum_cost_limit = 1", "statement_timeout = 0"):
        rvq.rows(f"SET {setting}", on=slow)
    pid = slow.info.backend_pid
    with background(rvq.rows, "VACUUM rvq.set_aside", on=slow) as vacuum, clock_and_bounds_are_put_back(rvq):
        under_way = f"SELECT phase FROM pg_stat_progress_vacuum WHERE pid = {pid} AND heap_blks_scanned > 0"
        wait_until(lambda: rvq.column(under_way), "it has begun")
        assert rvq.value(f"SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = {pid}")
        rvq.rows("UPDATE rvq.admission SET max_transaction_age = '0'")
        assert holders(rvq) == []
        assert rvq.value("SELECT rvq.check_admission()") is None
        assert not vacuum.done()
        rvq.rows(f"SELECT pg_cancel_backend({pid})")
        with pytest.raises(QueryCanceled):
            vacuum.result(30)


def test_a_standby_is_named_by_its_slot_or_by_its_name_where_it_has_none(
    rvq: Database, cluster: Cluster
) -> None:
    rvq.rows("SELECT pg_create_physical_replication_slot('of_the_standby', true)")
    with standby_of(cluster) as standby, clock_and_bounds_are_put_back(rvq):
        reader = psycopg2.connect(standby.url("rvq"))
        with contextlib.closing(reader), reader.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT 1 FROM rvq.queues")
            slot = [("slot", "replication slot of_the_standby")]
            wait_until(lambda: holders(rvq) == slot, "the standby has told its xmin", 60)
            assert vacuum_is_held_back(rvq)
            assert_all_name(rvq, *slot[0])
            execute(standby.url(), "ALTER SYSTEM SET primary_slot_name = ''")
            execute(standby.url(), "SELECT pg_reload_conf()")
            wait_until(lambda: ("standby", NO_SLOT) in holders(rvq), "it has come without its slot", 60)
            rvq.rows("SELECT pg_drop_replication_slot('of_the_standby')")
            assert holders(rvq) == [("standby", NO_SLOT)]
            assert vacuum_is_held_back(rvq)
            refusal = rvq.value("SELECT rvq.check_admission()")
            assert re.fullmatch(
                rf"vacuum is held back for 01:00:\d\d \({NO_SLOT}\); the bound is .*", refusal
            )


def test_a_session_of_another_role_is_seen_without_pg_read_all_stats(rvq: Database, cluster: Cluster) -> None:
    """Its start is hidden: its age is counted from its xid."""
    url = cluster.url("rvq")
    execute(url, f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'")
    migrate(url, grants={"dispatcher": ["plain"]})
    holder = HOLDING["a snapshot"](rvq)
    plain = Database(as_role(url, "plain"))
    with contextlib.closing(holder), contextlib.closing(plain), clock_and_bounds_are_put_back(rvq):
        plain.rows("SELECT rvq.check_admission()")
        rvq.move_clock(30)
        execute(plain.url, "SELECT rvq.check_admission()")
        rvq.move_clock(3630)
        rvq.rows("UPDATE rvq.admission SET max_transaction_age = '10 minutes'")
        ((refusal,),) = execute(plain.url, "SELECT rvq.check_admission()")
        pid = holder.info.backend_pid
        assert re.fullmatch(
            rf"a transaction is open for 01:00:\d\d \(pid {pid} of rvq-test\); .*", str(refusal)
        )


def test_a_clock_that_stepped_back_and_a_restore_make_no_age_negative(rvq: Database) -> None:
    with clock_and_bounds_are_put_back(rvq):
        rvq.move_clock(3600)
        rvq.rows("SELECT rvq.check_admission()")
        rvq.rows("INSERT INTO rvq.xid_times VALUES (4000000000, rvq.clock())")
        rvq.move_clock(0)
        rvq.rows("SELECT rvq.check_admission()")
        assert rvq.rows("SELECT xid < 4000000000, at <= rvq.clock() FROM rvq.xid_times") == [(True, True)]
