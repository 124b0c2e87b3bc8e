"""Reset empties everything, also while traffic runs, and nothing of before means anything afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event

import pytest

from tests.sql.calls import URL, Calls, Delivery, Lease, Report, other_token
from tests.support.concurrency import background, wait_until, wait_until_blocked
from tests.support.database import Database

SETTINGS = {"schema_migrations", "schema_functions", "schema_roles", "server_runs", "id_days"} | {
    "queues",
    "xid_times",
    "admission",
}


def reset(rvq: Calls) -> None:
    rvq.rows("SELECT rvq.reset()")


def rows_left(rvq: Calls) -> dict[str, int]:
    tables = rvq.rows(
        "SELECT relname FROM pg_class WHERE relnamespace = 'rvq'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition"
    )
    names = {name for (name,) in tables} - SETTINGS
    counts = {name: int(rvq.value(f"SELECT count(*) FROM rvq.{name}")) for name in names}
    return {name: count for name, count in counts.items() if count}


def fill(rvq: Calls) -> tuple[int, list[Lease]]:
    """Some of everything; an open task with its leases."""
    rvq.create(2, webhook=URL, key="k", body_hash=b"x")
    rvq.succeed(*rvq.claim(2))
    rvq.put_off(*rvq.claim_deliveries())
    rvq.fold()
    task_id = rvq.create(3)
    return task_id, rvq.claim(2)


def test_reset_empties_every_table(rvq: Calls) -> None:
    fill(rvq)
    assert {"tasks", "open_sub_tasks", "events", "due_deliveries", "counters"} <= set(rows_left(rvq))
    reset(rvq)
    assert rows_left(rvq) == {}
    reset(rvq)
    assert rows_left(rvq) == {}


def test_reset_empties_the_partitions_of_every_day(rvq: Calls, database: Database) -> None:
    for day in (0, 1, 2):
        database.move_clock(day * 86_400)
        fill(rvq)
        rvq.rows("DELETE FROM rvq.idempotency_keys")
    reset(rvq)
    assert rows_left(rvq) == {}


def test_old_leases_and_ids_are_unknown_afterwards(rvq: Calls) -> None:
    task_id, leases = fill(rvq)
    reset(rvq)
    assert rvq.succeed(*leases) == rvq.heartbeat(*leases) == rvq.release(*leases) == ["unknown", "unknown"]
    assert rvq.cancel(task_id) == rvq.retry(task_id) == "unknown"
    assert rvq.rows("SELECT * FROM rvq.read_task(%s)", (task_id,)) == []


def test_ids_are_never_used_again(rvq: Calls) -> None:
    before = rvq.create()
    reset(rvq)
    assert rvq.create() > before


def test_work_goes_on_after_a_reset(rvq: Calls) -> None:
    fill(rvq)
    reset(rvq)
    task_id = rvq.create(2, webhook=URL)
    rvq.succeed(*rvq.claim(2))
    assert rvq.events(task_id) == [(0, "succeeded")]
    assert len(rvq.claim_deliveries()) == 1


def test_reset_waits_for_a_writer_and_writers_wait_for_it(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    writer, resetter, newcomer = in_transaction(), another(), another()
    writer.create(2)
    with background(reset, resetter) as resetting:
        wait_until_blocked(rvq.connection, resetter.connection, writer.connection)
        with background(newcomer.create) as creating:
            wait_until_blocked(rvq.connection, newcomer.connection)
            writer.connection.commit()
            resetting.result(10)
            task_id = creating.result(10)
    assert [task.id for task in rvq.tasks()] == [task_id]


def test_reset_waits_for_a_reader_without_locking_it_out(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    """The reader holds one table and then asks for another: a reset that held that one would deadlock."""
    fill(rvq)
    reader, resetter = in_transaction(), another()
    reader.rows("SELECT * FROM rvq.open_tasks")
    with background(reset, resetter) as resetting:
        wait_until(lambda: naps(rvq, resetter), "reset waits for the reader")
        assert len(reader.rows("SELECT * FROM rvq.open_sub_tasks")) == 3
        assert not resetting.done()
        reader.connection.commit()
        resetting.result(10)
    assert rows_left(rvq) == {}


def naps(rvq: Calls, other: Calls) -> bool:
    sql = "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %s"
    return bool(rvq.value(sql, (other.connection.info.backend_pid,)))


def test_two_resets_at_once_take_turns(rvq: Calls, another: Callable[[], Calls]) -> None:
    clients = [another() for _ in range(4)]
    for _ in range(5):
        fill(rvq)
        with ThreadPoolExecutor(4) as executor:
            list(executor.map(reset, clients))
        assert rows_left(rvq) == {}


def test_reset_under_traffic_costs_nobody_an_error(rvq: Calls, another: Callable[[], Calls]) -> None:
    seed = random.randrange(2**32)
    workers, stop = [another() for _ in range(8)], Event()

    def work(client: Calls, number: int) -> int:
        rng, rounds = random.Random(seed + number), 0
        while not stop.is_set():
            one_of_everything(client, rng)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(8) as executor:
        working = [executor.submit(work, client, n) for n, client in enumerate(workers)]
        try:
            for _ in range(25):
                reset(rvq)
        finally:
            stop.set()
        rounds = [future.result(60) for future in working]
    assert min(rounds) > 0, f"seed {seed}"
    sql = "SELECT counter FROM rvq.audit() WHERE counted <> truth"
    assert rvq.rows(sql) == [], f"seed {seed}"


def one_of_everything(client: Calls, rng: random.Random) -> None:
    task_id = client.create(rng.randint(1, 3), webhook=URL, policy=rng.choice(["all", "fail_fast"]))
    leases = client.claim(3)
    for call in rng.sample([client.succeed, client.fail_for_good, client.heartbeat, client.release], 2):
        if leases:
            call(*leases)
    client.settle(*client.claim_deliveries(2))
    client.cancel(task_id)
    client.retry(task_id)
    client.rows("SELECT rvq.redeliver_task(%s)", (task_id,))
    client.fold()
    client.raise_floors() if rng.random() < 0.1 else client.stats()
    client.tasks(limit=3)
    client.expire_deliveries()


A_LEASE = Lease(1, "", 1, 1, "", other_token(), datetime.now(UTC))
A_DELIVERY = Delivery(1, 1, 1, "", "", "", other_token())
WRITERS: dict[str, Callable[[Calls], object]] = {
    "create": lambda c: c.create(key="k", body_hash=b"x"),
    "claim": lambda c: c.claim(1),
    "complete": lambda c: c.complete(Report(1, other_token())),
    "heartbeat": lambda c: c.heartbeat(A_LEASE),
    "release": lambda c: c.release(A_LEASE),
    "cancel": lambda c: c.cancel(1),
    "retry": lambda c: c.retry(1),
    "promote": lambda c: c.promote(),
    "expire": lambda c: c.expire(),
    "end overdue": lambda c: c.end_overdue(),
    "sweep": lambda c: c.sweep(),
    "fold": lambda c: c.fold(),
    "repair": lambda c: c.value("SELECT rvq.repair_counters()"),
    "claim deliveries": lambda c: c.claim_deliveries(),
    "settle": lambda c: c.settle(A_DELIVERY),
    "release deliveries": lambda c: c.release_deliveries(A_DELIVERY),
    "expire deliveries": lambda c: c.expire_deliveries(),
    "redeliver": lambda c: c.redeliver(1),
    "redeliver task": lambda c: c.value("SELECT rvq.redeliver_task(1)"),
    "drop partitions": lambda c: c.value("SELECT rvq.drop_expired_partitions(30)"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_waits_at_the_door_before_it_holds_any_table(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls], name: str
) -> None:
    """A reset inside waits for whoever holds a table: if that one waited for it too, neither would go on."""
    inside, writer = in_transaction(), another()
    inside.rows("SELECT pg_advisory_xact_lock(1, 0)")
    with background(WRITERS[name], writer):
        try:
            wait_until_blocked(rvq.connection, writer.connection, inside.connection)
            held = rvq.rows(
                "SELECT c.relname FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation"
                " WHERE l.pid = %s AND c.relnamespace = 'rvq'::regnamespace",
                (writer.connection.info.backend_pid,),
            )
        finally:
            inside.connection.commit()
    assert held == []
