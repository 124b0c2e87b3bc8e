"""The lease token is the fence: heartbeat, release, expiry and late reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

from tests.sql.calls import Calls, Lease, other_token
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database


def forged(lease: Lease) -> Lease:
    return lease._replace(token=other_token())


def expires_at(rvq: Calls, lease: Lease) -> object:
    return rvq.value("SELECT lease_expires_at FROM rvq.open_sub_tasks WHERE id = %s", (lease.id,))


# heartbeat


def test_a_heartbeat_extends_only_what_it_names(rvq: Calls, database: Database) -> None:
    rvq.create(2)
    one, two = rvq.claim(2, lease=10)
    assert rvq.heartbeat(one, seconds=100) == ["extended"]
    database.move_clock(11)
    assert rvq.expire() == 1
    assert rvq.succeed(one) == ["succeeded"]
    assert rvq.sub_tasks(two.id & -16384)[1].status == "scheduled"


def test_a_heartbeat_counts_from_now(rvq: Calls) -> None:
    rvq.create()
    lease = rvq.claim_one(lease=3600)
    rvq.heartbeat(lease, seconds=5)
    assert expires_at(rvq, lease) < lease.expires_at - timedelta(seconds=3000)  # type: ignore[operator]


def test_a_heartbeat_with_another_token_is_stale(rvq: Calls) -> None:
    rvq.create()
    lease = rvq.claim_one()
    assert rvq.heartbeat(forged(lease), seconds=900) == ["stale"]
    assert expires_at(rvq, lease) == lease.expires_at


def test_a_token_works_only_with_its_own_sub_task(rvq: Calls) -> None:
    rvq.create(2)
    one, two = rvq.claim(2)
    crossed = one._replace(token=two.token)
    assert rvq.heartbeat(crossed, two) == ["stale", "extended"]
    assert rvq.release(crossed, two) == ["stale", "released"]


def test_heartbeats_of_ended_sub_tasks_tell_how_they_ended(rvq: Calls) -> None:
    done_task, cancelled_task = rvq.create(2), rvq.create()
    done, _ = rvq.claim(2)
    (cancelled,) = rvq.claim(1)
    rvq.succeed(done)
    rvq.cancel(cancelled_task)
    assert rvq.heartbeat(done, cancelled) == ["stale", "cancelled"]
    assert rvq.heartbeat(done._replace(id=done_task), done._replace(id=99)) == ["unknown"] * 2


def test_a_heartbeat_of_a_lease_that_ran_out_unswept_saves_it(rvq: Calls, database: Database) -> None:
    rvq.create()
    lease = rvq.claim_one(lease=5)
    database.move_clock(6)
    assert rvq.heartbeat(lease) == ["extended"]
    assert rvq.expire() == 0


def test_a_heartbeat_after_the_sweep_is_stale(rvq: Calls, database: Database) -> None:
    rvq.create()
    lease = rvq.claim_one(lease=5)
    database.move_clock(6)
    rvq.expire()
    assert rvq.heartbeat(lease) == ["stale"]


def test_the_same_lease_twice_in_a_heartbeat_has_the_same_answer(rvq: Calls) -> None:
    rvq.create()
    lease = rvq.claim_one()
    assert rvq.heartbeat(lease, lease) == ["extended", "extended"]


# release


def test_a_release_gives_the_attempt_back(rvq: Calls) -> None:
    task_id = rvq.create(max_attempts=1)
    lease = rvq.claim_one()
    assert rvq.release(lease) == ["released"]
    (waiting,) = rvq.sub_tasks(task_id)
    assert (waiting.status, waiting.attempt, waiting.worker_id) == ("queued", 0, None)
    assert rvq.task(task_id).status == "queued"
    again = rvq.claim_one()
    assert (again.id, again.attempt) == (lease.id, 1)


def test_what_was_released_is_stale_for_its_old_holder(rvq: Calls) -> None:
    rvq.create()
    lease = rvq.claim_one()
    rvq.release(lease)
    assert rvq.succeed(lease) == rvq.fail(lease) == rvq.heartbeat(lease) == rvq.release(lease) == ["stale"]


def test_the_same_lease_twice_in_a_release_gives_back_one_attempt(rvq: Calls) -> None:
    rvq.create()
    rvq.fail(rvq.claim_one(), retry_after=0)
    lease = rvq.claim_one()
    assert rvq.release(lease, lease) == ["released", "released"]
    assert rvq.claim_one().attempt == 2


def test_releases_that_match_nothing_change_nothing(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(3)
    done, expired, held = rvq.claim(3, lease=5)
    rvq.heartbeat(held, seconds=500)
    rvq.succeed(done)
    database.move_clock(6)
    rvq.expire()
    strangers = (done, expired, forged(held), held._replace(id=4))
    assert rvq.release(*strangers) == ["stale", "stale", "stale", "unknown"]
    assert rvq.task(task_id).counts == {"scheduled": 1, "claimed": 1, "succeeded": 1}


def test_a_released_sub_task_goes_first(rvq: Calls) -> None:
    rvq.create(3)
    one, _ = rvq.claim(2)
    rvq.release(one)
    assert rvq.claim_one().id == one.id


# expiry


def test_an_expired_lease_spends_the_attempt_and_waits(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(max_attempts=2)
    rvq.claim_one(lease=5, worker="anna")
    assert rvq.expire() == 0
    database.move_clock(6)
    assert rvq.expire() == 1
    (waiting,) = rvq.sub_tasks(task_id)
    assert (waiting.status, waiting.attempt, waiting.worker_id) == ("scheduled", 1, "anna")
    assert waiting.error is not None
    assert json.loads(waiting.error)["code"] == "lease_expired"
    assert rvq.expire() == 0


def test_the_last_attempts_expiry_fails_the_sub_task_and_ends_the_task(
    rvq: Calls, database: Database
) -> None:
    task_id = rvq.create(max_attempts=1)
    lease = rvq.claim_one(lease=5)
    database.move_clock(6)
    assert rvq.expire() == 1
    (failed,) = rvq.sub_tasks(task_id)
    assert (failed.status, failed.finished_at is not None) == ("failed", True)
    assert failed.error is not None
    assert json.loads(failed.error)["code"] == "lease_expired"
    assert rvq.events(task_id) == [(0, "failed")]
    assert rvq.succeed(lease) == ["stale"]


def test_expiry_works_in_bounded_batches_oldest_first(rvq: Calls, database: Database) -> None:
    rvq.create(4)
    rvq.claim(3, lease=10)
    first = rvq.claim_one(lease=5)
    database.move_clock(11)
    assert rvq.expire(1) == 1
    assert rvq.heartbeat(first) == ["stale"]
    assert (rvq.expire(2), rvq.expire(2)) == (2, 1)


def test_a_late_success_counts_while_nobody_took_over(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(3)
    unswept, scheduled, queued = rvq.claim(3, lease=5)
    database.move_clock(6)
    rvq.heartbeat(unswept, seconds=1)
    assert rvq.expire() == 2
    rvq.rows("UPDATE rvq.open_sub_tasks SET due_at = rvq.clock() WHERE id = %s", (queued.id,))
    assert rvq.promote() == 1
    database.move_clock(8)
    assert rvq.succeed(unswept, scheduled, queued) == ["succeeded"] * 3
    assert rvq.task(task_id).counts == {"succeeded": 3}
    assert rvq.succeed(unswept, scheduled, queued) == ["duplicate"] * 3


def test_a_late_failure_counts_while_nobody_took_over(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(2, max_attempts=2)
    one, two = rvq.claim(2, lease=5)
    database.move_clock(6)
    rvq.expire()
    assert rvq.fail(one, retry_after=500) == ["retrying"]
    assert rvq.fail_for_good(two) == ["failed"]
    assert rvq.task(task_id).counts == {"scheduled": 1, "failed": 1}
    assert rvq.fail(one) == ["duplicate"]


def test_a_late_report_after_a_takeover_is_stale_also_by_the_same_worker(
    rvq: Calls, database: Database
) -> None:
    rvq.create(2)
    old = rvq.claim_one(lease=5, worker="anna")
    database.move_clock(6)
    rvq.expire()
    database.move_clock(60)
    newer = next(lease for lease in rvq.claim(2, worker="anna") if lease.id == old.id)
    assert (newer.attempt, newer.token != old.token) == (2, True)
    assert rvq.succeed(old) == rvq.heartbeat(old) == rvq.release(old) == ["stale"]
    assert rvq.succeed(newer) == ["succeeded"]
    assert rvq.succeed(old) == ["stale"]


# two at once


def test_the_sweep_that_waited_for_a_report_expires_nothing(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls], database: Database
) -> None:
    rvq.create(2)
    lease = rvq.claim_one(lease=5)
    database.move_clock(6)
    reporter, sweeper = in_transaction(), another()
    for calls in (reporter, sweeper):
        calls.rows("SET rvq.clock_offset = '6'")
    reporter.succeed(lease)
    with background(sweeper.expire) as answer:
        wait_until_blocked(rvq.connection, sweeper.connection, reporter.connection)
        reporter.connection.commit()
        assert answer.result(10) == 0


def test_the_sweep_that_waited_for_a_heartbeat_expires_nothing(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls], database: Database
) -> None:
    rvq.create(2)
    lease = rvq.claim_one(lease=5)
    database.move_clock(6)
    beating, sweeper = in_transaction(), another()
    beating.heartbeat(lease)
    with background(sweeper.expire) as answer:
        wait_until_blocked(rvq.connection, sweeper.connection, beating.connection)
        beating.connection.commit()
        assert answer.result(10) == 0
    assert rvq.succeed(lease) == ["succeeded"]


def test_the_report_that_waited_for_the_sweep_still_counts(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls], database: Database
) -> None:
    task_id = rvq.create(1)
    lease = rvq.claim_one(lease=5)
    database.move_clock(6)
    sweeper, reporter = in_transaction(), another()
    assert sweeper.expire() == 1
    with background(reporter.succeed, lease) as answer:
        wait_until_blocked(rvq.connection, reporter.connection, sweeper.connection)
        sweeper.connection.commit()
        assert answer.result(10) == ["succeeded"]
    assert rvq.events(task_id) == [(0, "succeeded")]


def test_two_sweeps_at_once_spend_one_attempt(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls], database: Database
) -> None:
    task_id = rvq.create(1, max_attempts=2)
    rvq.claim_one(lease=5)
    database.move_clock(6)
    first, second = in_transaction(), another()
    assert first.expire() == 1
    with background(second.expire) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == 0
    assert rvq.task(task_id).counts == {"scheduled": 1}
