"""Retention: whole days go, never one with something open in it, and the counters stay true at each step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dispatcher.rig import Tasks
from tests.dispatcher.steps import attempt, stepping
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database

DAY = 86400
URL = "http://one.test/hook"
DROP = "SELECT rvq.drop_expired_partitions(%s)"


@pytest.fixture
def today(database: Database) -> Iterator[int]:
    """The day that is about to be long ago. Its partitions are there again after the test."""
    yield int(database.value("SELECT rvq.day_at(rvq.clock())"))
    database.clean()
    database.rows("SELECT rvq.create_partitions(7)")


def partitions(database: Database, day: int) -> list[str]:
    names = "SELECT relname FROM pg_class WHERE relnamespace = 'rvq'::regnamespace AND relname ~ %s"
    return sorted(database.column(names, (f"[a-z]_{day}$",)))


def drop_all(database: Database, days: int) -> int:
    """Step by step, as the loop does; counters are compared with the truth after each."""
    total = 0
    while done := database.value(DROP, (days,)):
        total += done
        assert database.drift() == []
    return total


def go_to(database: Database, days: int) -> None:
    database.move_clock(days * DAY)
    database.rows("SELECT rvq.create_partitions(1)")


def deliver(database: Database, outcome: str = "delivered") -> None:
    with stepping(database.url, threads=100) as steps:
        while claimed := steps.claim():
            for delivery in claimed:
                steps.end(delivery, attempt(outcome))
            steps.settler.step()


def test_a_day_older_than_the_retention_goes_and_younger_ones_stay(database: Database, today: int) -> None:
    tasks = Tasks(database.url)
    tasks.finish(URL, 5)
    tasks.finish(None, 3, queue="other")
    deliver(database, "gone")
    go_to(database, 3)
    kept = tasks.finish(None, 2)
    assert drop_all(database, 3) == 0
    go_to(database, 4)
    assert drop_all(database, 3) == 5
    assert partitions(database, today) == []
    assert len(partitions(database, today + 3)) == 5
    assert database.value("SELECT count(*) FROM rvq.tasks") == len(kept)
    assert database.rows("SELECT counter, counted FROM rvq.audit()") == [
        ("succeeded", 2),
        ("tasks_succeeded", 2),
    ]


def test_failed_cancelled_and_retried_ones_are_counted_out_too(database: Database, today: int) -> None:
    tasks = Tasks(database.url)
    tasks.finish(URL, 2)
    deliver(database)
    for _ in range(2):
        made = tasks.create(2, URL, "fail_fast")
        Tasks(database.url).fail_one()
    database.rows("SELECT rvq.retry_task(%s)", (made,))
    Tasks(database.url).fail_one()
    cancelled = Tasks(database.url).create()
    database.rows("SELECT rvq.cancel_task(%s)", (cancelled,))
    deliver(database, "gone")
    assert database.drift() == []
    go_to(database, 40)
    drop_all(database, 30)
    assert partitions(database, today) == []
    assert database.rows("SELECT counter, counted FROM rvq.audit()") == []


def test_a_day_with_an_open_task_stays_and_later_days_go_all_the_same(database: Database, today: int) -> None:
    tasks = Tasks(database.url)
    tasks.finish(None, 2)
    Tasks(database.url).create()
    go_to(database, 1)
    tasks.finish(None, 2, queue="other")
    go_to(database, 50)
    drop_all(database, 30)
    assert len(partitions(database, today)) == 5
    assert partitions(database, today + 1) == []


def test_a_day_with_a_pending_delivery_stays(database: Database, today: int) -> None:
    Tasks(database.url).finish(URL)
    go_to(database, 50)
    drop_all(database, 30)
    assert len(partitions(database, today)) == 5
    deliver(database)
    drop_all(database, 30)
    assert len(partitions(database, today)) == 5
    go_to(database, 81)
    drop_all(database, 30)
    assert partitions(database, today) == []


def test_a_task_that_an_admin_is_just_reopening_keeps_its_day(database: Database, today: int) -> None:
    made = Tasks(database.url).create()
    Tasks(database.url).fail_one()
    go_to(database, 50)
    admin = database.connect(autocommit=False)
    assert database.value("SELECT rvq.retry_task(%s)", (made,), on=admin) == "retried"
    assert database.value(DROP, (30,)) == 0
    admin.commit()
    drop_all(database, 30)
    assert len(partitions(database, today)) == 5
    Tasks(database.url).fail_one()
    drop_all(database, 30)
    assert len(partitions(database, today)) == 5
    go_to(database, 81)
    drop_all(database, 30)
    assert partitions(database, today) == []
    assert database.value("SELECT rvq.retry_task(%s)", (made,)) == "unknown"


def test_idempotency_keys_of_the_day_are_forgotten_first_in_batches(database: Database, today: int) -> None:
    Tasks(database.url).finish(None)
    task_id = database.value("SELECT id FROM rvq.tasks")
    database.rows(
        "INSERT INTO rvq.idempotency_keys SELECT n::text, ''::bytea, %s FROM generate_series(1, 10005) AS n",
        (task_id,),
    )
    go_to(database, 50)
    assert [database.value(DROP, (30,)) for _ in range(3)] == [10000, 5, 1]
    drop_all(database, 30)
    assert database.value("SELECT count(*) FROM rvq.idempotency_keys") == 0


def test_a_reader_that_holds_a_day_makes_the_step_give_up_soon_and_nothing_is_half_done(
    database: Database, today: int
) -> None:
    Tasks(database.url).finish(None, 2)
    go_to(database, 50)
    reader = database.connect(autocommit=False)
    database.rows("SELECT count(*) FROM rvq.tasks", on=reader)
    dropper = database.connect()
    with background(database.value, DROP, (30,), on=dropper) as dropped:
        wait_until_blocked(database.main, dropper, by=reader)
        assert dropped.result(10) == 0
    assert database.drift() == []
    assert len(partitions(database, today)) == 5
    reader.rollback()
    drop_all(database, 30)
    assert partitions(database, today) == []


def test_claims_go_on_while_a_day_waits_to_be_dropped(database: Database, today: int) -> None:
    """A claim names the partition of its sub_tasks: the lock on the whole table is none of its business."""
    Tasks(database.url).finish(None, 2)
    go_to(database, 50)
    Tasks(database.url).create()
    locker = database.connect(autocommit=False)
    for table in ("tasks", "sub_tasks", "outcomes", "events", "delivery_attempts"):
        database.rows(f"LOCK TABLE ONLY rvq.{table} IN ACCESS EXCLUSIVE MODE", on=locker)
    claimed = database.rows("SELECT id FROM rvq.claim_sub_tasks('{w}', '{1}', 60, ARRAY['default'])")
    assert len(claimed) == 1
    locker.rollback()
