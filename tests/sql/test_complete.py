"""What a worker reports is stored once a lease, and every report has its own answer."""

from __future__ import annotations

from collections.abc import Callable

from tests.sql.calls import ERROR, Calls, Report, failure, other_token, success
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database


def test_a_success_ends_the_sub_task_with_its_result(rvq: Calls) -> None:
    task_id = rvq.create(2)
    lease = rvq.claim_one()
    assert rvq.complete(success(lease, '{"words": 1e2}'), worker="anna") == ["succeeded"]
    (done, _) = rvq.sub_tasks(task_id)
    assert (done.status, done.result, done.error) == ("succeeded", '{"words": 1e2}', None)
    assert (done.attempt, done.worker_id) == (1, "anna")
    assert done.finished_at is not None


def test_a_success_without_a_result_is_one(rvq: Calls) -> None:
    task_id = rvq.create()
    assert rvq.complete(success(rvq.claim_one(), None)) == ["succeeded"]
    assert rvq.sub_tasks(task_id)[0].result is None


def test_a_failure_with_attempts_left_is_tried_again(rvq: Calls) -> None:
    task_id = rvq.create(max_attempts=2)
    assert rvq.fail(rvq.claim_one()) == ["retrying"]
    (waiting,) = rvq.sub_tasks(task_id)
    assert (waiting.status, waiting.error, waiting.attempt) == ("scheduled", ERROR, 1)


def test_the_last_attempts_failure_is_final(rvq: Calls) -> None:
    task_id = rvq.create(max_attempts=1)
    assert rvq.fail(rvq.claim_one()) == ["failed"]
    (failed,) = rvq.sub_tasks(task_id)
    assert (failed.status, failed.error, failed.result) == ("failed", ERROR, None)


def test_a_failure_that_is_not_retryable_is_final(rvq: Calls) -> None:
    task_id = rvq.create(max_attempts=100)
    assert rvq.fail_for_good(rvq.claim_one()) == ["failed"]
    assert rvq.task(task_id).status == "failed"


def test_the_same_request_again_is_a_duplicate_and_changes_nothing(rvq: Calls) -> None:
    task_id = rvq.create(3, max_attempts=2)
    one, two, three = rvq.claim(3)
    request = (success(one), failure(two), failure(three, retryable=False))
    assert rvq.complete(*request) == ["succeeded", "retrying", "failed"]
    before = rvq.sub_tasks(task_id)
    assert rvq.complete(*request) == ["duplicate"] * 3
    assert rvq.sub_tasks(task_id) == before


def test_the_same_lease_twice_in_one_request_counts_once(rvq: Calls) -> None:
    task_id = rvq.create(2)
    lease = rvq.claim_one()
    assert sorted(rvq.complete(success(lease), success(lease))) == ["duplicate", "succeeded"]
    assert rvq.task(task_id).counts == {"queued": 1, "succeeded": 1}


def test_the_same_failure_twice_in_one_request_counts_once(rvq: Calls) -> None:
    task_id = rvq.create(2)
    lease = rvq.claim_one()
    assert rvq.complete(failure(lease), failure(lease)) == ["retrying", "duplicate"]
    assert rvq.task(task_id).counts == {"scheduled": 1, "queued": 1}


def test_success_and_failure_of_one_lease_in_one_request_count_once(rvq: Calls) -> None:
    task_id = rvq.create(2)
    lease = rvq.claim_one()
    outcomes = rvq.complete(failure(lease), success(lease))
    assert outcomes == ["duplicate", "succeeded"]
    assert rvq.task(task_id).counts == {"queued": 1, "succeeded": 1}


def test_a_failure_after_success_is_a_duplicate(rvq: Calls) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    rvq.succeed(lease)
    assert rvq.fail(lease) == ["duplicate"]
    assert rvq.task(task_id).status == "succeeded"


def test_a_lease_that_reported_failure_stays_a_duplicate_whatever_follows(rvq: Calls) -> None:
    rvq.create(max_attempts=3)
    lease = rvq.claim_one()
    rvq.fail(lease, retry_after=0)
    assert rvq.complete(success(lease)) == ["duplicate"]
    newer = rvq.claim_one()
    assert rvq.complete(success(lease)) == ["duplicate"]
    rvq.succeed(newer)
    assert rvq.complete(success(lease)) == ["duplicate"]


def test_a_token_nobody_was_given_is_stale(rvq: Calls) -> None:
    task_id = rvq.create(2)
    lease = rvq.claim_one()
    assert rvq.complete(Report(lease.id, other_token()), Report(lease.id + 1, other_token())) == ["stale"] * 2
    assert rvq.task(task_id).counts == {"claimed": 1, "queued": 1}


def test_the_token_of_another_sub_task_is_stale(rvq: Calls) -> None:
    rvq.create(2)
    one, two = rvq.claim(2)
    assert rvq.complete(Report(one.id, two.token)) == ["stale"]
    assert rvq.succeed(one, two) == ["succeeded", "succeeded"]


def test_ids_that_name_no_sub_task_are_unknown(rvq: Calls) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    for stranger in (0, -5, 2**63 - 1, -(2**63), task_id, task_id + 2, lease.id + 16_384, lease.id + 32_768):
        assert rvq.complete(Report(stranger, lease.token)) == ["unknown"]
    assert rvq.succeed(lease) == ["succeeded"]


def test_one_bad_report_never_costs_the_good_ones(rvq: Calls) -> None:
    rvq.create(3)
    one, two, three = rvq.claim(3)
    rvq.succeed(two)
    request = [success(one), Report(12345, one.token), success(two), Report(three.id, other_token())]
    request.append(success(three))
    assert rvq.complete(*request) == ["succeeded", "unknown", "duplicate", "stale", "succeeded"]


def test_reports_of_many_tasks_come_in_one_request_in_any_order(rvq: Calls) -> None:
    tasks = [rvq.create(2) for _ in range(20)]
    leases = rvq.claim(40)
    assert rvq.succeed(*reversed(leases)) == ["succeeded"] * 40
    assert [rvq.task(t).status for t in tasks] == ["succeeded"] * 20
    assert [rvq.events(t) for t in tasks] == [[(0, "succeeded")]] * 20


def test_a_thousand_reports_of_one_task_are_stored_at_once(rvq: Calls) -> None:
    task_id = rvq.create(1_000)
    assert rvq.succeed(*rvq.claim(1_000)) == ["succeeded"] * 1_000
    assert rvq.task(task_id).counts == {"succeeded": 1_000}


def test_a_report_of_a_cancelled_sub_task_is_stale(rvq: Calls) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    rvq.cancel(task_id)
    assert rvq.succeed(lease) == ["stale"]
    assert rvq.fail(lease) == ["stale"]


def test_a_paused_queue_still_takes_reports(rvq: Calls, database: Database) -> None:
    rvq.create(queue="paused-reports")
    lease = rvq.claim_one(queues=["paused-reports"])
    database.rows("SELECT rvq.set_queue_paused('paused-reports', true)")
    assert rvq.succeed(lease) == ["succeeded"]


def test_a_lease_claimed_yesterday_reports_today(rvq: Calls, database: Database) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one(lease=3600)
    database.move_clock(86_400)
    assert rvq.succeed(lease) == ["succeeded"]
    assert rvq.task(task_id).status == "succeeded"


def test_the_same_report_in_two_requests_at_once_counts_once(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    rvq.create(2)
    lease = rvq.claim_one()
    first, second = in_transaction(), another()
    assert first.succeed(lease) == ["succeeded"]
    with background(second.succeed, lease) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == ["duplicate"]


def test_a_report_whose_transaction_died_counts_when_sent_again(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    lost = in_transaction()
    assert lost.succeed(lease) == ["succeeded"]
    lost.connection.rollback()
    assert rvq.task(task_id).counts == {"claimed": 1}
    assert rvq.succeed(lease) == ["succeeded"]


def test_reports_of_several_workers_are_stored_by_one_call_each_under_its_name(rvq: Calls) -> None:
    task_id = rvq.create(2)
    leases = rvq.claim(2)
    outcomes = rvq.value(
        "SELECT rvq.complete_sub_tasks('{anna,ben}', %s::bigint[], %s::uuid[], '{t,f}', '{1,NULL}',"
        " %s::text[], '{t,t}', '{NULL,NULL}')",
        ([lease.id for lease in leases], [lease.token for lease in leases], [None, ERROR]),
    )
    assert outcomes == ["succeeded", "retrying"]
    rows = rvq.rows("SELECT id, worker_id FROM rvq.outcomes ORDER BY id")
    assert rows == [(task_id + 1, "anna"), (task_id + 2, "ben")]
