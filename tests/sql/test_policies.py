"""When a task ends: all, fail_fast, at_least, deadline; decided in the transaction that makes it true."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.sql.calls import URL, Calls, Lease, Report, failure, success
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database

pytestmark = pytest.mark.versions

ENDS = ("succeeded", "failed", "cancelled")


def assert_ended(rvq: Calls, task_id: int, status: str, **counts: int) -> None:
    """One event with this status, the counts as told, nothing left open, one delivery due."""
    task = rvq.task(task_id)
    assert (task.status, task.counts) == (status, counts)
    assert rvq.events(task_id) == [(0, status)]
    told = rvq.event_body(task_id)["data"]["counts"]
    assert {name: told[name] for name in ENDS if told[name]} == counts
    assert rvq.value("SELECT count(*) FROM rvq.open_sub_tasks WHERE rvq.task_of(id) = %s", (task_id,)) == 0
    assert [d.id for d in rvq.claim_deliveries()] == [task_id]


# fail_fast


def test_fail_fast_ends_at_the_first_final_failure_and_cancels_the_rest(rvq: Calls) -> None:
    task_id = rvq.create(4, policy="fail_fast", webhook=URL)
    one, two, three = rvq.claim(3)
    rvq.succeed(one)
    assert rvq.fail_for_good(two) == ["failed"]
    assert_ended(rvq, task_id, "failed", succeeded=1, failed=1, cancelled=2)
    assert rvq.statuses(task_id) == ["succeeded", "failed", "cancelled", "cancelled"]
    assert rvq.heartbeat(three) == ["cancelled"]
    assert rvq.succeed(three) == ["stale"]


def test_fail_fast_goes_on_while_attempts_are_left(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(2, policy="fail_fast", max_attempts=2)
    one, two = rvq.claim(2)
    assert rvq.fail(one, retry_after=0) == ["retrying"]
    rvq.succeed(two)
    assert rvq.task(task_id).status == "running"
    rvq.succeed(rvq.claim_one())
    assert rvq.events(task_id) == [(0, "succeeded")]


def test_fail_fast_ends_when_the_last_attempt_fails(rvq: Calls) -> None:
    task_id = rvq.create(3, policy="fail_fast", max_attempts=2, webhook=URL)
    rvq.fail(rvq.claim_one(), retry_after=0)
    (again,) = rvq.claim(1)
    assert rvq.fail(again) == ["failed"]
    assert_ended(rvq, task_id, "failed", failed=1, cancelled=2)


def test_fail_fast_ends_by_an_expiry(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(3, policy="fail_fast", max_attempts=1, webhook=URL)
    rvq.claim_one(lease=10)
    database.move_clock(11)
    assert rvq.expire() == 1
    assert_ended(rvq, task_id, "failed", failed=1, cancelled=2)


def test_fail_fast_with_only_successes_succeeds(rvq: Calls) -> None:
    task_id = rvq.create(2, policy="fail_fast", webhook=URL)
    rvq.succeed(*rvq.claim(2))
    assert_ended(rvq, task_id, "succeeded", succeeded=2)


def test_several_failures_in_one_request_are_all_counted(rvq: Calls) -> None:
    task_id = rvq.create(4, policy="fail_fast", webhook=URL)
    one, two, three = rvq.claim(3)
    reports = (failure(one, retryable=False), success(two), failure(three, retryable=False))
    assert rvq.complete(*reports) == ["failed", "succeeded", "failed"]
    assert_ended(rvq, task_id, "failed", succeeded=1, failed=2, cancelled=1)


def test_a_retry_beside_the_failure_that_ends_the_task_is_cancelled(rvq: Calls) -> None:
    task_id = rvq.create(3, policy="fail_fast", webhook=URL)
    one, two = rvq.claim(2)
    assert rvq.complete(failure(one), failure(two, retryable=False)) == ["retrying", "failed"]
    assert_ended(rvq, task_id, "failed", failed=1, cancelled=2)
    assert rvq.statuses(task_id) == ["cancelled", "failed", "cancelled"]


# at_least


def test_at_least_succeeds_with_the_kth_success_and_cancels_the_rest(rvq: Calls) -> None:
    task_id = rvq.create(5, policy="at_least", required=2, webhook=URL)
    one, two, three = rvq.claim(3)
    rvq.fail_for_good(one)
    rvq.succeed(two)
    assert rvq.task(task_id).status == "running"
    rvq.succeed(three)
    assert_ended(rvq, task_id, "succeeded", succeeded=2, failed=1, cancelled=2)


def test_at_least_fails_as_soon_as_k_is_out_of_reach(rvq: Calls) -> None:
    task_id = rvq.create(4, policy="at_least", required=3, webhook=URL)
    one, two = rvq.claim(2)
    rvq.fail_for_good(one)
    assert rvq.task(task_id).status == "running"
    rvq.fail_for_good(two)
    assert_ended(rvq, task_id, "failed", failed=2, cancelled=2)


def test_at_least_is_out_of_reach_by_an_expiry(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(3, policy="at_least", required=3, max_attempts=1, webhook=URL)
    rvq.claim_one(lease=5)
    database.move_clock(6)
    rvq.expire()
    assert_ended(rvq, task_id, "failed", failed=1, cancelled=2)


def test_at_least_all_of_them_needs_all(rvq: Calls) -> None:
    task_id = rvq.create(2, policy="at_least", required=2, webhook=URL)
    one, two = rvq.claim(2)
    rvq.succeed(one)
    assert rvq.task(task_id).status == "running"
    rvq.succeed(two)
    assert_ended(rvq, task_id, "succeeded", succeeded=2)


def test_more_successes_than_needed_in_one_request_are_all_kept(rvq: Calls) -> None:
    task_id = rvq.create(5, policy="at_least", required=2, webhook=URL)
    assert rvq.succeed(*rvq.claim(4)) == ["succeeded"] * 4
    assert_ended(rvq, task_id, "succeeded", succeeded=4, cancelled=1)


def test_success_wins_when_one_request_brings_both_decisions(rvq: Calls) -> None:
    task_id = rvq.create(3, policy="at_least", required=2, webhook=URL)
    one, two, three = rvq.claim(3)
    reports = (failure(one, retryable=False), success(two), success(three))
    rvq.complete(*reports)
    assert_ended(rvq, task_id, "succeeded", succeeded=2, failed=1)


def test_a_retry_does_not_put_k_out_of_reach(rvq: Calls) -> None:
    task_id = rvq.create(2, policy="at_least", required=2, max_attempts=2, webhook=URL)
    one, two = rvq.claim(2)
    rvq.fail(one, retry_after=0)
    rvq.succeed(two)
    assert rvq.task(task_id).status == "running"
    rvq.succeed(rvq.claim_one())
    assert_ended(rvq, task_id, "succeeded", succeeded=2)


# deadline, with every policy

POLICIES: list[dict[str, Any]] = [
    {"policy": "all"},
    {"policy": "fail_fast"},
    {"policy": "at_least", "required": 2},
]


@pytest.mark.parametrize("options", POLICIES, ids=lambda o: o["policy"])
def test_a_deadline_cancels_what_is_unfinished_and_fails_the_task(
    rvq: Calls, database: Database, options: dict[str, Any]
) -> None:
    task_id = rvq.create(4, deadline=30, webhook=URL, **options)
    done, held = rvq.claim(2, lease=3600)
    rvq.succeed(done)
    assert rvq.end_overdue() == 0
    database.move_clock(31)
    assert rvq.end_overdue() == 1
    assert_ended(rvq, task_id, "failed", succeeded=1, cancelled=3)
    assert rvq.heartbeat(held) == ["cancelled"]
    assert rvq.end_overdue() == 0


@pytest.mark.parametrize("options", POLICIES, ids=lambda o: o["policy"])
def test_a_deadline_reaches_tasks_that_nobody_claimed(
    rvq: Calls, database: Database, options: dict[str, Any]
) -> None:
    task_id = rvq.create(2, deadline=0.5, webhook=URL, **options)
    database.move_clock(1)
    assert rvq.end_overdue() == 1
    assert_ended(rvq, task_id, "failed", cancelled=2)


@pytest.mark.parametrize("options", POLICIES, ids=lambda o: o["policy"])
def test_a_task_that_ended_in_time_has_no_deadline_any_more(
    rvq: Calls, database: Database, options: dict[str, Any]
) -> None:
    task_id = rvq.create(2, deadline=10, **options)
    rvq.succeed(*rvq.claim(2))
    database.move_clock(11)
    assert rvq.end_overdue() == 0
    assert rvq.events(task_id) == [(0, "succeeded")]


def test_a_deadline_runs_from_not_before_when_that_is_later(rvq: Calls, database: Database) -> None:
    now: datetime = database.value("SELECT rvq.clock()")
    later, earlier = now + timedelta(hours=1), now - timedelta(hours=1)
    waiting = rvq.create(deadline=30, not_before=later)
    rvq.create(deadline=30, not_before=earlier)
    database.move_clock(31)
    assert rvq.end_overdue() == 1
    assert rvq.task(waiting).status == "queued"
    database.move_clock(3601)
    assert (rvq.promote(), len(rvq.claim())) == (1, 1)
    database.move_clock(3631)
    assert rvq.end_overdue() == 1
    assert rvq.events(waiting) == [(0, "failed")]


def test_deadlines_are_ended_in_bounded_batches_soonest_first(rvq: Calls, database: Database) -> None:
    late, soon = rvq.create(deadline=20), rvq.create(deadline=10)
    database.move_clock(30)
    assert rvq.end_overdue(1) == 1
    assert (rvq.task(soon).status, rvq.task(late).status) == ("failed", "queued")
    assert rvq.end_overdue(1) == 1


@pytest.mark.parametrize("options", POLICIES, ids=lambda o: o["policy"])
def test_cancelling_ends_a_task_of_any_policy(rvq: Calls, options: dict[str, Any]) -> None:
    task_id = rvq.create(3, webhook=URL, **options)
    rvq.succeed(*rvq.claim(1))
    assert rvq.cancel(task_id) == "cancelled"
    assert_ended(rvq, task_id, "cancelled", succeeded=1, cancelled=2)


# two at once


def test_two_decisions_at_the_same_instant_give_one_event(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create(4, policy="fail_fast", webhook=URL)
    one, two = rvq.claim(2)
    first, second = in_transaction(), another()
    first.fail_for_good(one)
    with background(second.fail_for_good, two) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == ["stale"]
    assert_ended(rvq, task_id, "failed", failed=1, cancelled=3)


def test_a_sibling_being_claimed_is_cancelled_after_the_claim(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create(3, policy="fail_fast", webhook=URL)
    one = rvq.claim_one()
    claimer, failer = in_transaction(), another()
    (held,) = claimer.claim(1)
    with background(failer.fail_for_good, one) as answer:
        wait_until_blocked(rvq.connection, failer.connection, claimer.connection)
        claimer.connection.commit()
        assert answer.result(10) == ["failed"]
    assert_ended(rvq, task_id, "failed", failed=1, cancelled=2)
    assert rvq.heartbeat(held) == ["cancelled"]


def test_a_batch_over_a_thousand_gated_tasks_holds_a_bounded_number_of_locks(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    for _ in range(1_000):
        rvq.create(1, policy="fail_fast")
    reporter = in_transaction()
    assert set(reporter.succeed(*rvq.claim(1_000))) == {"succeeded"}
    held = rvq.value(
        "SELECT count(*) FROM pg_locks WHERE pid = %s AND locktype = 'advisory'",
        (reporter.connection.info.backend_pid,),
    )
    reporter.connection.commit()
    assert held <= 513


def test_colliding_reports_of_gated_tasks_end_each_once(rvq: Calls, another: Callable[[], Calls]) -> None:
    """12 clients with overlapping, shuffled batches of successes and failures over tasks of all policies."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    tasks = [rvq.create(5, max_attempts=1, **POLICIES[n % 3]) for n in range(90)]
    leases = rvq.claim(1_000)
    batches = [_batch(rng, leases) for _ in range(240)]
    clients = [another() for _ in range(12)]
    with ThreadPoolExecutor(len(clients)) as executor:
        list(executor.map(_send_all, clients, [batches[n::12] for n in range(12)]))
    for task_id in tasks:
        rvq.cancel(task_id)
    ends = [rvq.events(task_id) for task_id in tasks]
    assert [len(end) for end in ends] == [1] * len(tasks), f"seed {seed}"
    assert rvq.value("SELECT count(*) FROM rvq.open_sub_tasks") == 0, f"seed {seed}"


def _batch(rng: random.Random, leases: list[Lease]) -> list[Report]:
    chosen = rng.sample(leases, 12)
    return [success(lease) if rng.random() < 0.6 else failure(lease, retryable=False) for lease in chosen]


def _send_all(client: Calls, batches: list[list[Report]]) -> None:
    for batch in batches:
        client.complete(*batch)
