"""Cancelling ends an open task at once, whoever works on it."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

from tests.sql.calls import URL, Calls, Lease
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database

ROUNDS = 500


def test_cancelling_ends_the_task_and_all_that_is_unfinished(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(4, webhook=URL)
    done, failed, held = rvq.claim(3)
    rvq.succeed(done)
    rvq.fail_for_good(failed)
    assert rvq.cancel(task_id) == "cancelled"
    task = rvq.task(task_id)
    assert task.counts == {"succeeded": 1, "failed": 1, "cancelled": 2}
    assert task.finished_at is not None
    assert rvq.event_body(task_id)["type"] == "task.cancelled"
    assert rvq.heartbeat(held) == ["cancelled"]
    assert len(rvq.claim_deliveries()) == 1


def test_scheduled_sub_tasks_are_cancelled_too(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(2, not_before=database.value("SELECT clock_timestamp()") + timedelta(hours=1))
    assert rvq.cancel(task_id) == "cancelled"
    assert rvq.task(task_id).counts == {"cancelled": 2}
    database.move_clock(7200)
    assert rvq.claim(2) == []


def test_nothing_of_a_cancelled_task_is_claimed(rvq: Calls) -> None:
    task_id, other = rvq.create(3), rvq.create()
    rvq.cancel(task_id)
    assert [lease.id for lease in rvq.claim(10)] == [other + 1]


def test_an_ended_task_can_not_be_cancelled(rvq: Calls) -> None:
    done, cancelled = rvq.create(), rvq.create()
    rvq.succeed(rvq.claim_one())
    rvq.cancel(cancelled)
    assert rvq.cancel(done) == rvq.cancel(cancelled) == "finished"
    assert rvq.events(done) == [(0, "succeeded")]
    assert rvq.events(cancelled) == [(0, "cancelled")]


def test_unknown_tasks_can_not_be_cancelled(rvq: Calls) -> None:
    task_id = rvq.create(2)
    for stranger in (0, -1, 5, task_id + 1, task_id + 16_384, 2**63 - 1, -(2**63)):
        assert rvq.cancel(stranger) == "unknown", stranger
    assert rvq.task(task_id).counts == {"queued": 2}


def test_ten_thousand_sub_tasks_are_cancelled_together(rvq: Calls) -> None:
    task_id = rvq.create(10_000)
    rvq.claim(500)
    assert rvq.cancel(task_id) == "cancelled"
    assert rvq.task(task_id).counts == {"cancelled": 10_000}


def test_two_cancels_at_once_give_one_event(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create(2)
    first, second = in_transaction(), another()
    assert first.cancel(task_id) == "cancelled"
    with background(second.cancel, task_id) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == "finished"
    assert rvq.events(task_id) == [(0, "cancelled")]


def test_a_cancel_that_waited_for_the_last_report_is_too_late(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    reporter, canceller = in_transaction(), another()
    reporter.succeed(lease)
    with background(canceller.cancel, task_id) as answer:
        wait_until_blocked(rvq.connection, canceller.connection, reporter.connection)
        reporter.connection.commit()
        assert answer.result(10) == "finished"
    assert rvq.events(task_id) == [(0, "succeeded")]


def test_a_report_that_waited_for_the_cancel_is_stale(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    canceller, reporter = in_transaction(), another()
    canceller.cancel(task_id)
    with background(reporter.succeed, lease) as answer:
        wait_until_blocked(rvq.connection, reporter.connection, canceller.connection)
        canceller.connection.commit()
        assert answer.result(10) == ["stale"]
    assert rvq.events(task_id) == [(0, "cancelled")]


def test_a_cancel_that_waited_while_the_task_ended_and_reopened_leaves_the_new_run_alone(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    ending, canceller = in_transaction(), another()
    ending.fail_for_good(lease)
    assert ending.retry(task_id) == "retried"
    with background(canceller.cancel, task_id) as answer:
        wait_until_blocked(rvq.connection, canceller.connection, ending.connection)
        ending.connection.commit()
        assert answer.result(10) == "finished"
    assert rvq.task(task_id).counts == {"queued": 1}
    assert rvq.cancel(task_id) == "cancelled"
    assert rvq.events(task_id) == [(0, "failed"), (1, "cancelled")]


def test_cancel_against_complete_has_one_winner_and_true_answers(
    rvq: Calls, another: Callable[[], Calls]
) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    policies = ["all", "fail_fast", "at_least"]
    tasks = [rvq.create(1, policy=rng.choice(policies), required=1) for _ in range(ROUNDS)]
    leases = {lease.id - 1: lease for lease in rvq.claim(ROUNDS)}
    canceller, reporter, barrier = another(), another(), Barrier(2)

    def cancel() -> list[str]:
        return [canceller.cancel(task_id) for task_id in tasks if barrier.wait(30) >= 0]

    def report() -> list[str]:
        return [reporter.succeed(leases[task_id])[0] for task_id in tasks if barrier.wait(30) >= 0]

    with ThreadPoolExecutor(2) as executor:
        cancelling, reporting = executor.submit(cancel), executor.submit(report)
        answers = list(zip(cancelling.result(60), reporting.result(60), strict=True))
    won = {("cancelled", "stale"): "cancelled", ("finished", "succeeded"): "succeeded"}
    assert set(answers) <= set(won), f"seed {seed}"
    assert [rvq.events(t) for t in tasks] == [[(0, won[answer])] for answer in answers], f"seed {seed}"
    assert len(set(answers)) == 2, f"only one ever won: seed {seed}"


def test_leases_of_a_cancelled_task_never_count_again(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(2)
    leases: list[Lease] = rvq.claim(2, lease=5)
    rvq.cancel(task_id)
    database.move_clock(10)
    assert rvq.expire() == 0
    assert rvq.release(*leases) == ["stale", "stale"]
    assert rvq.task(task_id).counts == {"cancelled": 2}
