"""The last sub_task to end also ends the task, once, whatever ended it."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC

import pytest

from tests.sql.calls import URL, Calls, Lease
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database

pytestmark = pytest.mark.versions

CLIENTS, TASKS, SUB_TASKS = 16, 400, 4


def test_the_last_success_ends_the_task_and_writes_its_event(rvq: Calls) -> None:
    task_id = rvq.create(2, metadata='{"b":1,"a":[1.10]}')
    one, two = rvq.claim(2)
    rvq.succeed(one)
    assert (rvq.task(task_id).status, rvq.events(task_id)) == ("running", [])
    rvq.succeed(two)
    assert (rvq.task(task_id).status, rvq.task(task_id).counts) == ("succeeded", {"succeeded": 2})
    assert rvq.events(task_id) == [(0, "succeeded")]
    body = rvq.event_body(task_id)
    assert body["type"] == "task.succeeded"
    assert body["data"]["task_id"] == f"task_{task_id:016x}"
    assert body["data"]["metadata"] == {"b": 1, "a": [1.1]}
    assert body["data"]["counts"]["succeeded"] == body["data"]["counts"]["total"] == 2
    assert body["timestamp"] == body["data"]["finished_at"]


def test_the_times_in_the_event_are_those_of_the_task(rvq: Calls) -> None:
    task_id = rvq.create()
    rvq.succeed(rvq.claim_one())
    task, data = rvq.task(task_id), rvq.event_body(task_id)["data"]
    stamp = "%Y-%m-%dT%H:%M:%S.%fZ"
    assert task.finished_at is not None
    assert data["created_at"] == task.created_at.astimezone(UTC).strftime(stamp)
    assert data["finished_at"] == task.finished_at.astimezone(UTC).strftime(stamp)


def test_one_failure_fails_the_task_once_all_have_ended(rvq: Calls) -> None:
    task_id = rvq.create(3)
    one, two, three = rvq.claim(3)
    rvq.fail_for_good(one)
    rvq.succeed(two)
    assert rvq.task(task_id).status == "running"
    rvq.succeed(three)
    assert rvq.task(task_id).counts == {"succeeded": 2, "failed": 1}
    assert rvq.events(task_id) == [(0, "failed")]


def _success(rvq: Calls, database: Database, task_id: int, last: Lease) -> None:
    assert rvq.succeed(last) == ["succeeded"]


def _final_failure(rvq: Calls, database: Database, task_id: int, last: Lease) -> None:
    assert rvq.fail_for_good(last) == ["failed"]


def _expiry(rvq: Calls, database: Database, task_id: int, last: Lease) -> None:
    database.move_clock(61)
    assert rvq.expire() == 1


def _cancel(rvq: Calls, database: Database, task_id: int, last: Lease) -> None:
    assert rvq.cancel(task_id) == "cancelled"


def _deadline(rvq: Calls, database: Database, task_id: int, last: Lease) -> None:
    database.move_clock(1001)
    assert rvq.end_overdue() == 1


LAST_STEPS = [
    (_success, "succeeded", {"succeeded": 2}),
    (_final_failure, "failed", {"succeeded": 1, "failed": 1}),
    (_expiry, "failed", {"succeeded": 1, "failed": 1}),
    (_cancel, "cancelled", {"succeeded": 1, "cancelled": 1}),
    (_deadline, "failed", {"succeeded": 1, "cancelled": 1}),
]


@pytest.mark.parametrize(("step", "status", "counts"), LAST_STEPS, ids=[s[0].__name__ for s in LAST_STEPS])
def test_any_last_step_gives_one_event_and_one_delivery(
    rvq: Calls, database: Database, step: Callable[..., None], status: str, counts: dict[str, int]
) -> None:
    task_id = rvq.create(2, max_attempts=1, deadline=1000, webhook=URL)
    done, last = rvq.claim(2)
    rvq.succeed(done)
    step(rvq, database, task_id, last)
    assert (rvq.task(task_id).counts, rvq.events(task_id)) == (counts, [(0, status)])
    (delivery,) = rvq.claim_deliveries()
    assert (delivery.id, delivery.url) == (task_id, URL)
    rvq.settle(delivery)
    rvq.expire()
    rvq.end_overdue()
    assert rvq.cancel(task_id) == "finished"
    assert rvq.events(task_id) == [(0, status)]
    assert rvq.sweep() == (None, 0)


def test_a_task_without_a_webhook_makes_an_event_and_no_delivery(rvq: Calls) -> None:
    task_id = rvq.create()
    rvq.succeed(rvq.claim_one())
    assert rvq.events(task_id) == [(0, "succeeded")]
    assert rvq.claim_deliveries() == []


def test_two_last_completions_at_the_same_instant_give_one_event(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create(2)
    one, two = rvq.claim(2)
    first, second = in_transaction(), another()
    first.succeed(one)
    with background(second.succeed, two) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == ["succeeded"]
    assert rvq.events(task_id) == [(0, "succeeded")]


def test_a_last_completion_that_rolls_back_leaves_the_other_to_end_nothing(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create(2)
    one, two = rvq.claim(2)
    first, second = in_transaction(), another()
    first.succeed(one)
    with background(second.succeed, two) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.rollback()
        assert answer.result(10) == ["succeeded"]
    assert (rvq.task(task_id).status, rvq.events(task_id)) == ("running", [])
    rvq.succeed(one)
    assert rvq.events(task_id) == [(0, "succeeded")]


def test_nothing_of_an_end_is_seen_before_its_commit(rvq: Calls, in_transaction: Callable[[], Calls]) -> None:
    task_id = rvq.create(webhook=URL)
    lease = rvq.claim_one()
    ending = in_transaction()
    ending.succeed(lease)
    assert (rvq.task(task_id).status, rvq.events(task_id)) == ("running", [])
    assert rvq.claim_deliveries() == []
    ending.connection.commit()
    assert (rvq.task(task_id).status, len(rvq.claim_deliveries())) == ("succeeded", 1)


def test_last_completions_colliding_give_exactly_one_event_each(
    rvq: Calls, another: Callable[[], Calls]
) -> None:
    """Every client holds one sub_task of each task, and all walk the tasks in an order of their own."""
    seed = random.randrange(2**32)
    tasks = [rvq.create(SUB_TASKS) for _ in range(TASKS)]
    leases = rvq.claim(1_000) + rvq.claim(1_000)
    assert len(leases) == TASKS * SUB_TASKS
    shuffled = random.Random(seed)
    shuffled.shuffle(leases)
    shares = [leases[client::CLIENTS] for client in range(CLIENTS)]
    clients = [another() for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as executor:
        answers = list(executor.map(_report_in_batches, clients, shares))
    assert answers == [["succeeded"] * len(share) for share in shares], f"seed {seed}"
    assert [rvq.events(task_id) for task_id in tasks] == [[(0, "succeeded")]] * TASKS, f"seed {seed}"
    assert rvq.sweep() == (None, 0)


def _report_in_batches(client: Calls, share: list[Lease]) -> list[str]:
    outcomes = []
    for start in range(0, len(share), 5):
        outcomes += client.succeed(*share[start : start + 5])
    return outcomes


def test_the_sweeper_ends_a_task_that_was_left_without_sub_tasks(rvq: Calls, database: Database) -> None:
    """It can't come to that by calls, so the row is taken away by hand."""
    task_id, healthy = rvq.create(), rvq.create()
    database.rows("DELETE FROM rvq.open_sub_tasks WHERE id = %s", (task_id + 1,))
    last, stranded = rvq.sweep()
    assert (last, stranded) == (healthy, 1)
    assert rvq.events(task_id) == [(0, "failed")]
    assert rvq.task(healthy).status == "queued"
    assert rvq.sweep(healthy) == (None, 0)
    database.rows("SELECT rvq.repair_counters()")


def test_the_sweeper_walks_in_batches_from_where_it_was(rvq: Calls) -> None:
    tasks = [rvq.create() for _ in range(5)]
    assert rvq.sweep(0, 2) == (tasks[1], 0)
    assert rvq.sweep(tasks[1], 2) == (tasks[3], 0)
    assert rvq.sweep(tasks[3], 2) == (tasks[4], 0)
