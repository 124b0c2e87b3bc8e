"""Facts by day: made ahead of need, found from the id, dropped when all of the day has ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import psycopg2
import pytest

from tests.sql.calls import URL, Calls
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database

DAY = 86_400
FACTS = {"tasks", "sub_tasks", "outcomes", "events", "delivery_attempts"}
FAR = 200 * DAY


@pytest.fixture(autouse=True)
def _today_has_its_partitions_again(database: Database) -> Iterator[None]:
    yield
    database.move_clock(0)
    database.rows("SELECT rvq.create_partitions(7)")


def create_partitions(rvq: Calls, ahead: int = 0) -> int:
    return int(rvq.value("SELECT rvq.create_partitions(%s)", (ahead,)))


def partitions(rvq: Calls, day: int) -> set[str]:
    """The parents that have a partition for this day."""
    sql = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ ('_' || %s || '$')"
    return {name.rpartition("_")[0] for (name,) in rvq.rows(sql, (day,))}


def today(rvq: Calls) -> int:
    return int(rvq.value("SELECT rvq.day_at(rvq.clock())"))


def drop_expired(rvq: Calls, days: int = 30) -> int:
    """Every step there is."""
    steps = 0
    while rvq.value("SELECT rvq.drop_expired_partitions(%s)", (days,)):
        steps += 1
    return steps


# made ahead


def test_partitions_are_made_for_today_and_the_days_ahead(rvq: Calls, database: Database) -> None:
    database.move_clock(FAR)
    day = today(rvq)
    assert create_partitions(rvq, 2) == 15
    assert [partitions(rvq, day + n) for n in range(4)] == [FACTS, FACTS, FACTS, set()]
    assert create_partitions(rvq, 2) == 0
    assert create_partitions(rvq, 3) == 5


def test_a_missing_partition_is_an_error_of_its_own_and_the_next_try_works(
    rvq: Calls, database: Database
) -> None:
    database.move_clock(FAR + 50 * DAY)
    with pytest.raises(psycopg2.errors.CheckViolation, match="no partition of relation"):
        rvq.create(key="k", body_hash=b"x")
    create_partitions(rvq)
    assert rvq.post(key="k", body_hash=b"x").outcome == "created"


def test_a_task_lives_on_over_midnight(rvq: Calls, database: Database) -> None:
    seconds_to_midnight = float(
        rvq.value("SELECT 86400 - extract(epoch FROM clock_timestamp())::numeric %% 86400")
    )
    database.move_clock(seconds_to_midnight - 1.0)
    before = rvq.create(3, webhook=URL)
    rvq.fail(rvq.claim_one(lease=3600), retry_after=0)
    day = today(rvq)
    database.move_clock(seconds_to_midnight + 60)
    assert today(rvq) == day + 1
    after = rvq.create(1)
    leases = rvq.claim(10)
    assert [lease.id for lease in leases] == [before + 1, before + 2, before + 3, after + 1]
    rvq.succeed(*leases)
    assert rvq.events(before) == rvq.events(after) == [(0, "succeeded")]
    rvq.settle(*rvq.claim_deliveries())
    for table in ("outcomes", "events", "delivery_attempts", "sub_tasks"):
        held = rvq.value(f"SELECT count(*) FROM rvq.{table}_{day} WHERE rvq.task_of(id) = %s", (before,))
        assert held >= 1, table
    assert [task.id for task in rvq.tasks()] == [after, before]


def test_what_is_claimed_of_several_days_comes_with_its_own_texts(rvq: Calls, database: Database) -> None:
    """Also where the first one is of the last day, and where nothing is known of one."""
    tasks = []
    for day in range(3):
        database.move_clock(FAR + (90 + day) * DAY)
        create_partitions(rvq)
        tasks.append(rvq.create(payloads=[f"{day}0", f"{day}1"], webhook=URL))
    rvq.release(*rvq.claim(6)[::2])
    leases = rvq.claim(6)
    assert {lease.id: lease.payload for lease in leases} == {
        task + 1: f"{n}0" for n, task in enumerate(tasks)
    }
    later = database.value("SELECT max(id) FROM rvq.open_sub_tasks")
    assert rvq.value("SELECT rvq.payloads_of(%s)", ([later, 1, *(lease.id for lease in leases)],)) == [
        "21",
        None,
        *(lease.payload for lease in leases),
    ]
    for task in tasks:
        rvq.cancel(task)
    assert {row.id: row.body for row in rvq.claim_deliveries()} == {
        task: rvq.value("SELECT body FROM rvq.events WHERE id = %s", (task,)) for task in tasks
    }


def test_readers_have_a_branch_for_each_day_that_is_made(rvq: Calls, database: Database) -> None:
    database.move_clock(FAR + 60 * DAY)
    create_partitions(rvq, 2)
    for reader, facts in (("payloads_of", "sub_tasks"), ("bodies_of", "events")):
        text = rvq.value("SELECT prosrc FROM pg_proc WHERE proname = %s", (reader,))
        days = [int(day) for day in re.findall(rf"rvq.{facts}_(\d+)", text)]
        assert set(days) >= {today(rvq) + n for n in range(3)}
        assert days[0] == today(rvq)  # the branch that is looked at first


def test_a_database_whose_partitions_are_older_than_the_readers_gets_them(rvq: Calls) -> None:
    rvq.create(payloads=["7"])
    rvq.rows("DROP FUNCTION rvq.payloads_of, rvq.bodies_of")
    assert create_partitions(rvq) == 0
    assert rvq.claim_one().payload == "7"


def test_a_partition_that_somebody_else_named_is_no_day_of_ours(rvq: Calls) -> None:
    rvq.rows("CREATE TABLE rvq.sub_tasks_of_old PARTITION OF rvq.sub_tasks FOR VALUES FROM (1) TO (2)")
    try:
        rvq.rows("DROP FUNCTION rvq.payloads_of, rvq.bodies_of")
        assert create_partitions(rvq) == 0
        rvq.create(payloads=["7"])
        assert rvq.claim_one().payload == "7"
        assert drop_expired(rvq, 0) == 0
    finally:
        rvq.rows("DROP TABLE rvq.sub_tasks_of_old")


def test_several_makers_at_once_make_each_once(
    rvq: Calls, another: Callable[[], Calls], database: Database
) -> None:
    database.move_clock(FAR + 20 * DAY)
    first, second = another(), another()
    with background(create_partitions, first, 5) as one, background(create_partitions, second, 5) as two:
        assert one.result(30) + two.result(30) == 30


def test_making_partitions_waits_for_no_reader_and_no_writer(
    rvq: Calls, in_transaction: Callable[[], Calls], database: Database
) -> None:
    busy = in_transaction()
    busy.create(2, webhook=URL)
    busy.succeed(*busy.claim(2))
    busy.tasks()
    database.move_clock(FAR + 40 * DAY)
    rvq.rows("SET lock_timeout = '1s'")
    assert create_partitions(rvq) == 5
    rvq.rows("RESET lock_timeout")
    busy.connection.commit()


def test_no_statistics_are_gathered_of_what_partners_and_workers_sent(rvq: Calls) -> None:
    rvq.create(1, webhook=URL)
    rvq.succeed(*rvq.claim(1))
    rvq.settle(*rvq.claim_deliveries())
    day = today(rvq)
    for table in FACTS:
        rvq.rows(f"ANALYZE rvq.{table}_{day}")
    analysed = rvq.rows(
        "SELECT tablename, attname FROM pg_stats WHERE schemaname = 'rvq' AND tablename ~ ('_' || %s || '$')",
        (day,),
    )
    assert {table for table, _ in analysed} == {f"{table}_{day}" for table in FACTS}
    assert not {column for _, column in analysed} & {
        "payload",
        "result",
        "error",
        "body",
        "metadata",
        "answer",
    }


def test_partitions_have_every_index_and_a_comment(rvq: Calls) -> None:
    day = today(rvq)
    for table in FACTS:
        sql = "SELECT count(*) FROM pg_index WHERE indrelid = %s::regclass AND indisvalid"
        assert rvq.value(sql, (f"rvq.{table}_{day}",)) == rvq.value(sql, (f"rvq.{table}",))
        assert rvq.value("SELECT obj_description(%s::regclass)", (f"rvq.{table}_{day}",)) is not None


# dropped


@pytest.fixture
def old_day(rvq: Calls, database: Database) -> int:
    """Today, 40 days later, with some of everything ended on it."""
    database.move_clock(0)
    day = today(rvq)
    rvq.create(2, webhook=URL, key="old", body_hash=b"x")
    rvq.succeed(*rvq.claim(2))
    rvq.settle(*rvq.claim_deliveries())
    rvq.cancel(rvq.create(3, queue="b"))
    rvq.create(1, queue="c", webhook=URL)
    rvq.fail_for_good(*rvq.claim(1, queues=["c"]))
    rvq.give_up(*rvq.claim_deliveries())
    database.move_clock(40 * DAY)
    create_partitions(rvq)
    return day


def test_a_day_that_is_over_long_enough_goes_counters_and_keys_included(rvq: Calls, old_day: int) -> None:
    fresh = rvq.create()
    assert drop_expired(rvq, 41) == 0
    assert drop_expired(rvq, 30) > 0
    assert partitions(rvq, old_day) == set()
    assert [task.id for task in rvq.tasks()] == [fresh]
    assert rvq.stats()["tasks"] == {"queued": 1, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
    assert rvq.stats()["deliveries"] == {"pending": 0, "delivered": 0, "dead": 0}
    assert rvq.rows("SELECT counter FROM rvq.audit() WHERE counted <> truth") == []
    assert rvq.post(key="old", body_hash=b"y").outcome == "created"


def test_a_day_with_an_open_task_stays_whole(rvq: Calls, database: Database) -> None:
    day = today(rvq)
    rvq.create(2)
    lease = rvq.claim_one()
    database.move_clock(40 * DAY)
    drop_expired(rvq)
    assert partitions(rvq, day) == FACTS
    assert rvq.succeed(lease) == ["succeeded"]
    rvq.succeed(rvq.claim_one())
    drop_expired(rvq)
    assert partitions(rvq, day) == FACTS
    database.move_clock(70 * DAY + 60)
    drop_expired(rvq)
    assert partitions(rvq, day) == set()


def test_a_day_with_a_pending_delivery_stays_whole(rvq: Calls, database: Database) -> None:
    day = today(rvq)
    rvq.create(webhook=URL)
    rvq.succeed(rvq.claim_one())
    database.move_clock(40 * DAY)
    drop_expired(rvq)
    assert partitions(rvq, day) == FACTS
    rvq.settle(*rvq.claim_deliveries())
    drop_expired(rvq)
    assert partitions(rvq, day) == FACTS
    database.move_clock(70 * DAY + 60)
    drop_expired(rvq)
    assert partitions(rvq, day) == set()


def test_what_was_dropped_is_unknown(rvq: Calls, old_day: int) -> None:
    tasks = [task.id for task in rvq.tasks()]
    drop_expired(rvq)
    for task_id in tasks:
        assert rvq.rows("SELECT * FROM rvq.read_task(%s)", (task_id,)) == []
        assert rvq.sub_tasks(task_id) == []
        assert rvq.cancel(task_id) == rvq.retry(task_id) == "unknown"
        assert rvq.redeliver(task_id) == ["unknown"]


def test_half_a_dropped_day_can_not_be_reopened(rvq: Calls, old_day: int) -> None:
    """The tasks go first, whatever else of the day is still there."""
    tasks = [task.id for task in rvq.tasks()]
    while "tasks" in partitions(rvq, old_day):
        assert rvq.value("SELECT rvq.drop_expired_partitions(30)") > 0
    assert partitions(rvq, old_day) != set()
    assert [rvq.retry(task_id) for task_id in tasks] == ["unknown"] * len(tasks)
    assert set(rvq.redeliver(*tasks)) == {"unknown"}
    assert rvq.rows("SELECT counter FROM rvq.audit() WHERE counted <> truth") == []
    drop_expired(rvq)


def test_a_drop_that_meets_a_reader_gives_way_and_works_later(
    rvq: Calls, old_day: int, in_transaction: Callable[[], Calls]
) -> None:
    reader = in_transaction()
    reader.rows("SELECT count(*) FROM rvq.tasks")
    drop_expired(rvq)
    assert partitions(rvq, old_day) == FACTS
    reader.connection.commit()
    drop_expired(rvq)
    assert partitions(rvq, old_day) == set()


def test_an_admins_retry_meanwhile_wins_or_finds_nothing(
    rvq: Calls, old_day: int, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    (failed,) = [task.id for task in rvq.tasks("failed")]
    admin = in_transaction()
    assert admin.retry(failed) == "retried"
    drop_expired(rvq)
    admin.connection.commit()
    assert partitions(rvq, old_day) == FACTS
    assert rvq.cancel(failed) == "cancelled"


def test_a_retry_that_waited_for_the_drop_finds_nothing(
    rvq: Calls, old_day: int, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    (failed,) = [task.id for task in rvq.tasks("failed")]
    dropper, admin = in_transaction(), another()
    dropper.rows("SET rvq.clock_offset = %s", (str(40 * DAY),))
    while "tasks" in partitions(dropper, old_day):
        assert dropper.value("SELECT rvq.drop_expired_partitions(30)") > 0
    with background(admin.retry, failed) as answer:
        wait_until_blocked(rvq.connection, admin.connection, dropper.connection)
        dropper.connection.commit()
        assert answer.result(10) == "unknown"
