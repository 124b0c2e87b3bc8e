"""Retention counts from the end: what ended on a late day is there as long as what ended at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.sql.calls import HOST, URL, Calls
from tests.support.database import Database

DAY = 86_400
RETENTION = 30


@pytest.fixture(autouse=True)
def _today_has_its_partitions_again(database: Database) -> Iterator[None]:
    yield
    database.clean()
    database.rows("SELECT rvq.create_partitions(7)")
    days = "SELECT DISTINCT day FROM rvq.list_partitions() WHERE day > rvq.day_at(rvq.clock()) + 7"
    for day in database.column(days):
        for parent in ("tasks", "sub_tasks", "outcomes", "events", "delivery_attempts"):
            database.rows(f"DROP TABLE IF EXISTS rvq.{parent}_{day}")
    database.rows("SELECT rvq.write_readers()")


class Days:
    """Moves the clock, and lets retention do all it would by then."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def pass_to(self, days: float) -> None:
        self.database.move_clock(days * DAY)
        self.database.rows("SELECT rvq.create_partitions(7)")
        while self.database.value("SELECT rvq.drop_expired_partitions(%s)", (RETENTION,)):
            pass
        assert self.database.drift() == []

    def end_abandoned(self, days: int = 120) -> int:
        sql = "SELECT abandoned FROM rvq.end_abandoned_tasks(%s, 0, 1000)"
        return int(self.database.value(sql, (days,)))


@pytest.fixture
def days(database: Database) -> Days:
    return Days(database)


def is_known(rvq: Calls, task_id: int) -> bool:
    return bool(rvq.rows("SELECT id FROM rvq.read_task(%s)", (task_id,)))


def feed(rvq: Calls) -> list[int]:
    return [row[0] for row in rvq.rows("SELECT id FROM rvq.list_events('0', 0, 100)")]


def test_a_task_that_ends_late_is_there_for_the_whole_retention_from_then_on(rvq: Calls, days: Days) -> None:
    task_id = rvq.create(key="k", body_hash=b"x")
    days.pass_to(31)
    rvq.succeed(rvq.claim_one())
    for later in (31, 45, 60.9):
        days.pass_to(later)
        assert rvq.task(task_id).status == "succeeded"
        assert rvq.sub_tasks(task_id)[0].result == '{"ok":true}'
        assert feed(rvq) == [task_id]
        assert rvq.post(key="k", body_hash=b"x")[:2] == ("replayed", task_id)
    days.pass_to(61.1)
    assert not is_known(rvq, task_id)
    assert feed(rvq) == []


def test_what_ended_at_once_goes_when_its_last_neighbour_may(rvq: Calls, days: Days) -> None:
    """A day goes whole, so the one that ended first is there longer, never shorter."""
    early = rvq.create()
    rvq.succeed(rvq.claim_one())
    late = rvq.create()
    days.pass_to(20)
    rvq.succeed(rvq.claim_one())
    days.pass_to(49)
    assert is_known(rvq, early)
    assert is_known(rvq, late)
    days.pass_to(51)
    assert not is_known(rvq, early)
    assert not is_known(rvq, late)


def test_a_dead_delivery_is_shown_for_the_whole_retention(rvq: Calls, days: Days) -> None:
    task_id = rvq.create(webhook=URL)
    rvq.succeed(rvq.claim_one())
    days.pass_to(31)
    rvq.give_up(*rvq.claim_deliveries())
    days.pass_to(60)
    assert rvq.redeliver(task_id) == ["redelivered"]
    rvq.settle(*rvq.claim_deliveries())
    days.pass_to(89)
    assert [status for _, _, status in rvq.ledger(task_id)] == ["dead", "delivered"]
    days.pass_to(91)
    assert not is_known(rvq, task_id)


def test_a_reopened_task_counts_from_its_last_end(rvq: Calls, days: Days) -> None:
    task_id = rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    days.pass_to(29)
    assert rvq.retry(task_id) == "retried"
    rvq.succeed(rvq.claim_one())
    days.pass_to(58)
    assert rvq.events(task_id) == [(0, "failed"), (1, "succeeded")]
    days.pass_to(60)
    assert not is_known(rvq, task_id)


def test_a_day_is_not_measured_again_before_it_may_go(rvq: Calls, days: Days, database: Database) -> None:
    rvq.create()
    days.pass_to(20)
    rvq.succeed(rvq.claim_one())
    days.pass_to(35)
    (measured,) = database.column("SELECT measured_at FROM rvq.ended_days")
    days.pass_to(49)
    assert database.column("SELECT measured_at FROM rvq.ended_days") == [measured]
    days.pass_to(51)
    assert database.column("SELECT measured_at FROM rvq.ended_days") == []


def test_what_ends_between_two_looks_at_a_day_is_seen_by_the_second(rvq: Calls, days: Days) -> None:
    failed, late = rvq.create(max_attempts=1), rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    rvq.succeed(rvq.claim_one())
    days.pass_to(20)
    assert rvq.redeliver(late) == ["unknown"]
    assert rvq.retry(failed) == "retried"
    rvq.succeed(rvq.claim_one())
    days.pass_to(40)
    assert rvq.retry(late) == "nothing_failed"
    days.pass_to(45)
    assert is_known(rvq, failed)


# the reverse: what never ends


def test_a_task_that_nobody_works_fails_and_its_day_goes(rvq: Calls, days: Days) -> None:
    neighbour = rvq.create()
    rvq.succeed(rvq.claim_one())
    starved = rvq.create(3, queue="nobody", webhook=URL)
    days.pass_to(119)
    assert days.end_abandoned() == 0
    assert rvq.rows("SELECT open_task, due_delivery FROM rvq.list_open_days(30)") == [(starved, None)]
    days.pass_to(121)
    assert days.end_abandoned() == 1
    assert rvq.task(starved).status == "failed"
    assert rvq.statuses(starved) == ["cancelled"] * 3
    assert rvq.rows("SELECT open_task, due_delivery FROM rvq.list_open_days(30)") == [(None, starved)]
    rvq.settle(*rvq.claim_deliveries())
    assert rvq.rows("SELECT * FROM rvq.list_open_days(30)") == []
    days.pass_to(150)
    assert is_known(rvq, starved)
    days.pass_to(152)
    assert not is_known(rvq, starved)
    assert not is_known(rvq, neighbour)


def test_a_task_that_was_not_to_run_before_is_not_abandoned(rvq: Calls, days: Days) -> None:
    moment: datetime = rvq.value("SELECT clock_timestamp()")
    task_id = rvq.create(not_before=moment + timedelta(days=200))
    days.pass_to(319)
    rvq.promote()
    assert days.end_abandoned() == 0
    days.pass_to(321)
    assert days.end_abandoned() == 1
    assert rvq.task(task_id).status == "failed"


def test_a_reopened_task_is_not_abandoned_for_its_age(rvq: Calls, days: Days) -> None:
    task_id = rvq.create()
    days.pass_to(110)
    rvq.fail_for_good(rvq.claim_one())
    days.pass_to(130)
    assert rvq.retry(task_id) == "retried"
    days.pass_to(249)
    assert days.end_abandoned() == 0
    days.pass_to(251)
    assert days.end_abandoned() == 1
    assert rvq.events(task_id) == [(0, "failed"), (1, "failed")]


def test_abandoned_tasks_are_ended_in_batches_of_sub_tasks(rvq: Calls, days: Days) -> None:
    tasks = [rvq.create(4) for _ in range(3)]
    days.pass_to(121)
    sql = "SELECT * FROM rvq.end_abandoned_tasks(120, %s, 5)"
    assert rvq.rows(sql, (0,)) == [(tasks[0], 1)]
    assert rvq.rows(sql, (tasks[0],)) == [(tasks[1], 1)]
    assert rvq.rows(sql, (tasks[1],)) == [(tasks[2], 1)]
    assert rvq.rows(sql, (tasks[2],)) == [(None, 0)]


def test_a_delivery_whose_turn_never_came_is_given_up(rvq: Calls, days: Days) -> None:
    task_id = rvq.create(webhook=URL)
    rvq.succeed(rvq.claim_one())
    rvq.rows("INSERT INTO rvq.webhook_hosts VALUES (%s, 9, 'infinity')", (HOST,))
    days.pass_to(29)
    assert rvq.value("SELECT rvq.give_up_deliveries(30, 100)") == 0
    days.pass_to(31)
    assert rvq.value("SELECT rvq.give_up_deliveries(30, 100)") == 1
    assert rvq.ledger(task_id) == [(1, "timeout", "dead")]
    assert rvq.redeliver(task_id) == ["redelivered"]
    assert rvq.value("SELECT rvq.give_up_deliveries(30, 100)") == 0
