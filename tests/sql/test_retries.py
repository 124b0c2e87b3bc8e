"""Back-off, retry_after, not_before, promotion, and attempts that run out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.sql.calls import Calls
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database


def seconds_to_wait(rvq: Calls, sub_task_id: int) -> float:
    sql = "SELECT extract(epoch FROM due_at - rvq.clock())::float8 FROM rvq.open_sub_tasks WHERE id = %s"
    return float(rvq.value(sql, (sub_task_id,)))


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 1), (2, 16), (3, 81), (7, 2401), (8, 3600), (99, 3600)])
def test_the_wait_grows_with_the_attempts_to_an_hour_with_jitter(
    rvq: Calls, attempt: int, seconds: float
) -> None:
    sql = "SELECT extract(epoch FROM rvq.retry_delay(%s))::float8 FROM generate_series(1, 200)"
    waits = [row[0] for row in rvq.rows(sql, (attempt,))]
    assert all(seconds * 0.9 <= wait <= seconds * 1.1 for wait in waits)
    assert max(waits) - min(waits) > seconds * 0.05


def test_a_failed_attempt_waits_its_back_off(rvq: Calls) -> None:
    rvq.create()
    lease = rvq.claim_one()
    rvq.fail(lease)
    assert 0 < seconds_to_wait(rvq, lease.id) <= 1.1


def test_retry_after_takes_the_place_of_the_back_off(rvq: Calls) -> None:
    rvq.create()
    lease = rvq.claim_one()
    rvq.fail(lease, retry_after=300)
    assert 290 < seconds_to_wait(rvq, lease.id) <= 300
    assert rvq.claim(1) == []


def test_retry_after_zero_queues_at_once(rvq: Calls) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    assert rvq.fail(lease, retry_after=0) == ["retrying"]
    assert rvq.task(task_id).counts == {"queued": 1}
    assert rvq.claim_one().attempt == 2


def test_an_expired_lease_waits_its_back_off_too(rvq: Calls, database: Database) -> None:
    rvq.create()
    lease = rvq.claim_one(lease=5)
    database.move_clock(6)
    rvq.expire()
    assert 0 < seconds_to_wait(rvq, lease.id) <= 1.1


def test_promotion_queues_only_what_is_due(rvq: Calls, database: Database) -> None:
    now: datetime = database.value("SELECT clock_timestamp()")
    soon = rvq.create(2, not_before=now + timedelta(seconds=10))
    late = rvq.create(2, not_before=now + timedelta(seconds=100))
    assert rvq.promote() == 0
    database.move_clock(11)
    assert rvq.promote() == 2
    assert (rvq.task(soon).counts, rvq.task(late).counts) == ({"queued": 2}, {"scheduled": 2})


def test_promotion_works_in_bounded_batches_the_soonest_first(rvq: Calls, database: Database) -> None:
    now: datetime = database.value("SELECT clock_timestamp()")
    late = rvq.create(2, not_before=now + timedelta(seconds=20))
    soon = rvq.create(2, not_before=now + timedelta(seconds=10))
    database.move_clock(30)
    assert rvq.promote(2) == 2
    assert (rvq.task(soon).counts, rvq.task(late).counts) == ({"queued": 2}, {"scheduled": 2})
    assert (rvq.promote(2), rvq.promote(2)) == (2, 0)


def test_two_promotions_at_once_share_without_waiting(
    rvq: Calls, in_transaction: Callable[[], Calls], database: Database
) -> None:
    rvq.create(4, not_before=database.value("SELECT clock_timestamp()") + timedelta(seconds=10))
    database.move_clock(11)
    other = in_transaction()
    other.rows("SET rvq.clock_offset = '11'")
    assert other.promote(3) == 3
    assert rvq.promote(3) == 1
    other.connection.commit()


def test_the_order_of_claims_is_that_of_being_due(rvq: Calls, database: Database) -> None:
    now: datetime = database.value("SELECT clock_timestamp()")
    late = rvq.create(not_before=now + timedelta(seconds=20))
    soon = rvq.create(not_before=now + timedelta(seconds=10))
    database.move_clock(30)
    assert [lease.id for lease in (rvq.claim_one(), rvq.claim_one())] == [soon + 1, late + 1]


def test_queued_at_never_changes_over_a_whole_life(rvq: Calls, database: Database) -> None:
    rvq.create(max_attempts=10)
    sql = "SELECT queued_at FROM rvq.open_sub_tasks"
    first = rvq.value(sql)
    lease = rvq.claim_one(lease=5)
    rvq.release(lease)
    rvq.fail(rvq.claim_one(), retry_after=1)
    database.move_clock(10)
    rvq.promote()
    rvq.claim_one(lease=5)
    database.move_clock(20)
    rvq.expire()
    assert rvq.value(sql) == first


def test_attempts_are_counted_until_none_is_left(rvq: Calls) -> None:
    task_id = rvq.create(max_attempts=3)
    outcomes = [rvq.fail(rvq.claim_one(), retry_after=0)[0] for _ in range(3)]
    assert outcomes == ["retrying", "retrying", "failed"]
    assert rvq.sub_tasks(task_id)[0].attempt == 3
    assert rvq.claim(1) == []


def test_every_sub_task_has_its_own_attempts(rvq: Calls) -> None:
    task_id = rvq.create(payloads=["1", "2"], max_attempts=[1, 2])
    assert rvq.fail(*rvq.claim(2), retry_after=0) == ["failed", "retrying"]
    assert rvq.fail(*rvq.claim(2), retry_after=0) == ["failed"]
    assert rvq.task(task_id).counts == {"failed": 2}


def test_a_sub_task_that_kills_its_worker_each_time_ends_the_task_without_claims(
    rvq: Calls, database: Database
) -> None:
    task_id = rvq.create(max_attempts=3)
    moved = 0
    for attempt in range(1, 4):
        assert rvq.claim_one(lease=10).attempt == attempt
        moved += 200
        database.move_clock(moved)
        assert rvq.expire() == 1
        moved += 200
        database.move_clock(moved)
        rvq.promote()
    assert rvq.events(task_id) == [(0, "failed")]
    assert rvq.task(task_id).counts == {"failed": 1}


def test_every_attempt_leaves_a_fact(rvq: Calls, database: Database) -> None:
    rvq.create(max_attempts=4)
    rvq.fail(rvq.claim_one(worker="a"), retry_after=0)
    rvq.claim_one(worker="b", lease=5)
    database.move_clock(60)
    rvq.expire()
    database.move_clock(120)
    rvq.succeed(rvq.claim_one())
    sql = "SELECT attempt, status::text, worker_id FROM rvq.outcomes ORDER BY attempt"
    assert rvq.rows(sql) == [(1, "retrying", "w"), (2, "retrying", "b"), (3, "succeeded", "w")]


def test_a_task_waiting_for_a_retry_is_running(rvq: Calls) -> None:
    task_id = rvq.create(2)
    rvq.fail(rvq.claim_one(), retry_after=100)
    assert rvq.task(task_id).status == "running"


def test_cancelling_waits_for_a_promotion_under_way(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls], database: Database
) -> None:
    task_id = rvq.create(2, not_before=database.value("SELECT clock_timestamp()") + timedelta(seconds=10))
    database.move_clock(11)
    promoting, cancelling = in_transaction(), another()
    promoting.rows("SET rvq.clock_offset = '11'")
    assert promoting.promote() == 2
    with background(cancelling.cancel, task_id) as answer:
        wait_until_blocked(rvq.connection, cancelling.connection, promoting.connection)
        promoting.connection.commit()
        assert answer.result(10) == "cancelled"
    assert rvq.task(task_id).counts == {"cancelled": 2}
