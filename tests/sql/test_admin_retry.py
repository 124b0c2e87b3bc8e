"""An admin's retry reopens a failed task; it ends again with an event of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.sql.calls import URL, Calls
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database


def failed_task(rvq: Calls, sub_tasks: int = 1, **options: object) -> int:
    """All its sub_tasks failed."""
    task_id = rvq.create(sub_tasks, **options)
    leases = rvq.claim(sub_tasks)
    assert set(rvq.fail_for_good(*leases)) <= {"failed", "stale"}
    return task_id


def test_only_what_did_not_succeed_runs_again(rvq: Calls) -> None:
    task_id = rvq.create(3, webhook=URL)
    one, two, three = rvq.claim(3)
    rvq.succeed(one, three)
    rvq.fail_for_good(two)
    assert rvq.retry(task_id) == "retried"
    task = rvq.task(task_id)
    assert (task.status, task.counts, task.finished_at) == ("running", {"queued": 1, "succeeded": 2}, None)
    assert [lease.id for lease in rvq.claim(3)] == [two.id]


def test_the_second_end_has_its_own_event_and_delivery(rvq: Calls) -> None:
    task_id = failed_task(rvq, webhook=URL)
    (first,) = rvq.claim_deliveries()
    rvq.settle(first)
    rvq.retry(task_id)
    rvq.succeed(rvq.claim_one())
    assert rvq.events(task_id) == [(0, "failed"), (1, "succeeded")]
    (second,) = rvq.claim_deliveries()
    assert (first.id, second.id) == (task_id, task_id + 1)
    assert rvq.event_body(task_id, 0)["type"] == "task.failed"
    assert rvq.event_body(task_id, 1)["data"]["counts"]["succeeded"] == 1


def test_a_retried_sub_task_has_all_its_attempts_again(rvq: Calls) -> None:
    task_id = rvq.create(max_attempts=2)
    for _ in range(2):
        rvq.fail(rvq.claim_one(), retry_after=0)
    rvq.retry(task_id)
    leases = []
    for _ in range(2):
        leases.append(rvq.claim_one())
        rvq.fail(leases[-1], retry_after=0)
    assert [(lease.attempt, lease.max_attempts) for lease in leases] == [(3, 4), (4, 4)]
    assert rvq.events(task_id) == [(0, "failed"), (1, "failed")]


def test_old_leases_stay_worthless(rvq: Calls) -> None:
    task_id = rvq.create(2, policy="fail_fast")
    failing, cancelled = rvq.claim(2)
    rvq.fail_for_good(failing)
    rvq.retry(task_id)
    assert rvq.succeed(failing, cancelled) == ["duplicate", "stale"]
    assert rvq.heartbeat(failing, cancelled) == ["stale", "stale"]
    assert rvq.task(task_id).counts == {"queued": 2}


def test_a_task_can_be_retried_many_times(rvq: Calls) -> None:
    task_id = failed_task(rvq)
    for _ in range(5):
        assert rvq.retry(task_id) == "retried"
        rvq.fail_for_good(rvq.claim_one())
    rvq.retry(task_id)
    rvq.succeed(rvq.claim_one())
    assert rvq.events(task_id) == [(n, "failed") for n in range(6)] + [(6, "succeeded")]


def test_what_can_not_be_retried_says_why(rvq: Calls) -> None:
    succeeded, open_task, cancelled = rvq.create(), rvq.create(queue="other"), rvq.create(queue="third")
    rvq.succeed(rvq.claim_one())
    rvq.cancel(cancelled)
    assert rvq.retry(succeeded) == "nothing_failed"
    assert rvq.retry(cancelled) == "nothing_failed"
    assert rvq.retry(open_task) == "unfinished"
    assert rvq.retry(succeeded + 1) == rvq.retry(3) == rvq.retry(2**63 - 1) == "unknown"


def test_a_reopened_task_is_unfinished_and_can_be_cancelled(rvq: Calls) -> None:
    task_id = failed_task(rvq, 2)
    rvq.retry(task_id)
    assert rvq.retry(task_id) == "unfinished"
    assert rvq.cancel(task_id) == "cancelled"
    assert rvq.events(task_id) == [(0, "failed"), (1, "cancelled")]
    assert rvq.retry(task_id) == "nothing_failed"


def test_the_policy_holds_in_the_new_run(rvq: Calls) -> None:
    task_id = rvq.create(4, policy="at_least", required=3)
    one, two, three = rvq.claim(3)
    rvq.succeed(one)
    rvq.fail_for_good(two, three)
    rvq.retry(task_id)
    assert rvq.task(task_id).counts == {"succeeded": 1, "queued": 3}
    rvq.succeed(*rvq.claim(2))
    assert rvq.events(task_id) == [(0, "failed"), (1, "succeeded")]
    assert rvq.task(task_id).counts == {"succeeded": 3, "cancelled": 1}


def test_the_deadline_begins_anew(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(2, deadline=100)
    database.move_clock(101)
    rvq.end_overdue()
    rvq.retry(task_id)
    assert rvq.end_overdue() == 0
    database.move_clock(202)
    assert rvq.end_overdue() == 1
    assert rvq.events(task_id) == [(0, "failed"), (1, "failed")]


def test_two_retries_at_once_reopen_once(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = failed_task(rvq, 2)
    first, second = in_transaction(), another()
    assert first.retry(task_id) == "retried"
    with background(second.retry, task_id) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == "unfinished"
    assert rvq.task(task_id).counts == {"queued": 2}


def test_a_retry_that_waited_while_another_run_came_and_went_makes_the_next_run(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    task_id = failed_task(rvq)
    first, second = in_transaction(), another()
    first.retry(task_id)
    first.fail_for_good(first.claim_one())
    with background(second.retry, task_id) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == "retried"
    rvq.succeed(rvq.claim_one())
    assert rvq.events(task_id) == [(0, "failed"), (1, "failed"), (2, "succeeded")]


def test_parallel_retries_and_ends_never_use_a_run_twice(rvq: Calls, another: Callable[[], Calls]) -> None:
    task_id = failed_task(rvq)
    clients = [another() for _ in range(8)]

    def work(client: Calls) -> int:
        retried = 0
        for _ in range(40):
            retried += client.retry(task_id) == "retried"
            for lease in client.claim(1):
                client.fail_for_good(lease)
        return retried

    with ThreadPoolExecutor(len(clients)) as executor:
        retried = sum(executor.map(work, clients))
    for lease in rvq.claim(1):
        rvq.fail_for_good(lease)
    assert rvq.events(task_id) == [(run, "failed") for run in range(retried + 1)]


def test_a_clock_set_back_does_not_run_again_what_succeeded(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(2)
    rvq.fail_for_good(*rvq.claim(2))
    rvq.retry(task_id)
    database.move_clock(-3600)
    one, two = rvq.claim(2)
    rvq.succeed(one)
    rvq.fail_for_good(two)
    assert rvq.retry(task_id) == "retried"
    assert rvq.task(task_id).counts == {"succeeded": 1, "queued": 1}
    assert rvq.statuses(task_id) == ["succeeded", "queued"]
    rvq.succeed(rvq.claim_one())
    assert rvq.events(task_id)[-1] == (2, "succeeded")
