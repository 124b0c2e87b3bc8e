"""Queues: preference, pause, and the floor from which claim starts to look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sql.calls import Calls
from tests.support.concurrency import background, wait_until
from tests.support.database import Database


@pytest.fixture(autouse=True)
def _no_queue_stays_paused(database: Database) -> Iterator[None]:
    """A reset keeps the settings of queues."""
    yield
    database.rows("DELETE FROM rvq.queues")


def pause(rvq: Calls, queue: str, paused: bool = True) -> None:
    rvq.rows("SELECT rvq.set_queue_paused(%s, %s)", (queue, paused))


def floor(rvq: Calls, queue: str = "default") -> Any:
    found = rvq.rows("SELECT claim_floor FROM rvq.queues WHERE queue = %s", (queue,))
    return found[0][0] if found else None


def seen_at(rvq: Calls, queue: str) -> tuple[object, ...]:
    (row,) = rvq.rows("SELECT * FROM rvq.read_queue(%s)", (queue,))
    return row


# preference and pause


def test_queues_are_emptied_in_the_order_given(rvq: Calls) -> None:
    for queue in ("c", "a", "b"):
        rvq.create(2, queue=queue)
    assert [lease.queue for lease in rvq.claim(5, queues=["b", "c", "a"])] == ["b", "b", "c", "c", "a"]
    assert [lease.queue for lease in rvq.claim(5, queues=["b", "c", "a"])] == ["a"]


def test_a_queue_that_is_named_twice_is_one_queue(rvq: Calls) -> None:
    rvq.create(3, queue="a")
    assert len({lease.id for lease in rvq.claim(10, queues=["a", "a"])}) == 3


def test_sub_tasks_queued_again_go_before_those_that_are_new(rvq: Calls) -> None:
    rvq.create(3)
    first = rvq.claim_one()
    rvq.fail(first, retry_after=0)
    assert [lease.id - first.id for lease in rvq.claim(3)] == [0, 1, 2]


def test_names_of_queues_are_taken_as_they_are(rvq: Calls) -> None:
    for queue in ("a", "a.b", "a-b", "a_b", "0"):
        rvq.create(queue=queue)
        assert rvq.claim(5, queues=[queue])[0].queue == queue


def test_a_paused_queue_hands_out_nothing(rvq: Calls) -> None:
    rvq.create(2, queue="a")
    rvq.create(1, queue="b")
    rvq.fail(rvq.claim_one(queues=["a"]), retry_after=0)
    pause(rvq, "a")
    assert [lease.queue for lease in rvq.claim(5, queues=["a", "b"])] == ["b"]
    pause(rvq, "a", False)
    assert len(rvq.claim(5, queues=["a", "b"])) == 2


def test_a_queue_can_be_paused_before_anybody_uses_it(rvq: Calls) -> None:
    pause(rvq, "new")
    rvq.create(queue="new")
    assert rvq.claim(1, queues=["new"]) == []


def test_a_paused_queue_goes_on_with_leases_and_floors(rvq: Calls) -> None:
    rvq.create(2, queue="a")
    held = rvq.claim_one(queues=["a"])
    pause(rvq, "a")
    rvq.fold()
    rvq.raise_floors()
    assert rvq.heartbeat(held) == ["extended"]
    assert rvq.release(held) == ["released"]
    pause(rvq, "a", False)
    assert len(rvq.claim(5, queues=["a"])) == 2


def test_reading_a_queue_tells_pause_and_what_waits(rvq: Calls) -> None:
    assert seen_at(rvq, "a") == (False, 0, 0, 0)
    rvq.create(3, queue="a")
    rvq.claim(1, queues=["a"])
    pause(rvq, "a")
    assert seen_at(rvq, "a") == (True, 0, 2, 1)
    rvq.fold()
    assert seen_at(rvq, "a") == (True, 0, 2, 1)


def test_reset_keeps_the_pause_and_forgets_the_floor(rvq: Calls) -> None:
    rvq.create(queue="a")
    rvq.fold()
    rvq.raise_floors()
    pause(rvq, "a")
    rvq.rows("SELECT rvq.reset()")
    assert seen_at(rvq, "a")[0] is True
    assert rvq.value("SELECT claim_floor = '-infinity' FROM rvq.queues WHERE queue = 'a'")


# floors


def test_the_floor_rises_to_the_oldest_that_is_queued(rvq: Calls) -> None:
    rvq.create(2)
    oldest = rvq.create(2)
    rvq.claim(2)
    rvq.fold()
    assert rvq.raise_floors() == 1
    assert floor(rvq) == rvq.task(oldest).created_at
    assert [lease.id for lease in rvq.claim(5)] == [oldest + 1, oldest + 2]


def test_an_empty_queues_floor_rises_to_now(rvq: Calls) -> None:
    rvq.create()
    rvq.claim(1)
    rvq.fold()
    before = rvq.value("SELECT clock_timestamp()")
    rvq.raise_floors()
    assert floor(rvq) >= before
    task_id = rvq.create()
    assert rvq.claim_one().id == task_id + 1


def test_whatever_comes_back_is_found_below_the_floor(rvq: Calls, database: Database) -> None:
    """Release, retry, expiry, promotion and an admin's retry all queue sub_tasks older than the floor."""
    moment = database.value("SELECT clock_timestamp() + interval '1 second'")
    waiting = rvq.create(1, not_before=moment)
    rvq.create(4)
    released, retried, expired, failed = rvq.claim(4, lease=5)
    for lease in (released, retried, failed):
        rvq.heartbeat(lease, seconds=1000)
    database.move_clock(100)
    rvq.fold()
    rvq.raise_floors()
    rvq.release(released)
    rvq.fail(retried, retry_after=0)
    rvq.expire()
    assert {lease.id for lease in rvq.claim(10)} == {released.id, retried.id, waiting + 1}
    database.move_clock(200)
    rvq.raise_floors()
    assert {lease.id for lease in rvq.claim(10)} == {expired.id}
    rvq.fail_for_good(failed)
    assert rvq.task(failed.id & -16384).counts["failed"] == 1


def test_what_a_clock_set_back_left_below_the_floor_is_rescued(rvq: Calls) -> None:
    task_id = rvq.create(2)
    rvq.rows(
        "INSERT INTO rvq.queues VALUES ('default', false, clock_timestamp() + interval '1 second')"
        " ON CONFLICT (queue) DO UPDATE SET claim_floor = excluded.claim_floor"
    )
    assert rvq.claim(5) == []
    assert rvq.value("SELECT rvq.rescue_below_floors()") == 2
    assert [lease.id for lease in rvq.claim(5)] == [task_id + 1, task_id + 2]
    assert rvq.value("SELECT rvq.rescue_below_floors()") == 0


def test_a_reopened_task_is_found_below_the_floor(rvq: Calls, database: Database) -> None:
    task_id = rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    database.move_clock(100)
    rvq.fold()
    rvq.raise_floors()
    rvq.retry(task_id)
    assert rvq.claim_one().id == task_id + 1


def test_a_clock_that_was_set_back_hides_nothing(rvq: Calls, database: Database) -> None:
    rvq.create()
    rvq.claim(1)
    rvq.fold()
    database.move_clock(3600)
    rvq.raise_floors()
    database.move_clock(0)
    task_id = rvq.create(2)
    assert {lease.id for lease in rvq.claim(5)} == {task_id + 1, task_id + 2}
    assert rvq.raise_floors() == 0


def test_the_floor_waits_for_a_create_that_began_before(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    """The create has its queued_at already, and nobody sees its rows yet."""
    rvq.create()
    rvq.claim(1)
    rvq.fold()
    creator, raiser = in_transaction(), another()
    created = creator.post(2)
    with background(raiser.raise_floors) as answer:
        wait_until(lambda: sleeps(rvq, raiser), "the raise waits for the create")
        assert not answer.done()
        creator.connection.commit()
        assert answer.result(10) == 1
    assert floor(rvq) == created.created_at
    assert len(rvq.claim(5)) == 2


def test_the_floor_gives_up_on_a_writer_that_stays(rvq: Calls, in_transaction: Callable[[], Calls]) -> None:
    rvq.create()
    rvq.claim(1)
    rvq.fold()
    creator = in_transaction()
    creator.create(2)
    assert rvq.raise_floors() == 0
    assert floor(rvq) is None
    creator.connection.commit()
    assert rvq.raise_floors() == 1


def test_a_create_that_begins_while_the_floor_waits_is_found(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    rvq.create()
    rvq.claim(1)
    rvq.fold()
    older, newer, raiser = in_transaction(), in_transaction(), another()
    older.create(1)
    with background(raiser.raise_floors) as answer:
        wait_until(lambda: sleeps(rvq, raiser), "the raise waits for the older create")
        newer.create(1)
        older.connection.commit()
        assert answer.result(10) == 1
    newer.connection.commit()
    assert len(rvq.claim(5)) == 2


def test_floors_and_pauses_of_many_queues_at_once_never_deadlock(
    rvq: Calls, another: Callable[[], Calls]
) -> None:
    queues = [f"q{n}" for n in range(20)]
    for queue in queues:
        rvq.create(queue=queue)
    rvq.fold()
    clients = [another() for _ in range(4)]
    with background(lambda: [clients[0].raise_floors() for _ in range(30)]) as raising:
        with background(lambda: [clients[1].raise_floors() for _ in range(30)]) as also:
            for n in range(60):
                pause(clients[2], queues[-n % 20], n % 2 == 0)
                clients[3].create(queue=queues[n % 20])
            also.result(30)
        raising.result(30)
    for queue in queues:
        pause(rvq, queue, False)
    assert len(rvq.claim(1_000, queues=queues)) == 80


def sleeps(rvq: Calls, other: Calls) -> bool:
    sql = "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = %s"
    return bool(rvq.value(sql, (other.connection.info.backend_pid,)))
