"""Claim hands out queued sub_tasks, oldest first, to one worker each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.sql.calls import Calls, Lease
from tests.support.database import Database

LARGEST = 256 * 1024


def test_a_claim_carries_all_that_the_worker_needs(rvq: Calls) -> None:
    task_id = rvq.create(payloads=['{"a": 1.10}'], max_attempts=7)
    before = rvq.value("SELECT clock_timestamp()")
    lease = rvq.claim_one(lease=90)
    assert (lease.id, lease.queue, lease.payload) == (task_id + 1, "default", '{"a": 1.10}')
    assert (lease.attempt, lease.max_attempts) == (1, 7)
    after = rvq.value("SELECT clock_timestamp()")
    assert before + timedelta(seconds=90) <= lease.expires_at <= after + timedelta(seconds=90)


def test_claiming_makes_the_task_run_and_names_the_worker(rvq: Calls) -> None:
    task_id = rvq.create(2)
    rvq.claim(1, worker="anna")
    task = rvq.task(task_id)
    assert (task.status, task.counts) == ("running", {"queued": 1, "claimed": 1})
    assert [s.worker_id for s in rvq.sub_tasks(task_id)] == ["anna", None]


def test_several_claims_are_served_by_one_call_the_first_one_first(rvq: Calls) -> None:
    task_id = rvq.create(5)
    rows = rvq.rows(
        "SELECT claim, id FROM rvq.claim_sub_tasks('{anna,ben,carl}', '{2,2,2}', 60, '{default}')"
    )
    assert rows == [(1, task_id + 1), (1, task_id + 2), (2, task_id + 3), (2, task_id + 4), (3, task_id + 5)]
    assert [s.worker_id for s in rvq.sub_tasks(task_id)] == ["anna", "anna", "ben", "ben", "carl"]


def test_large_payloads_that_are_queued_reach_every_claim_of_a_call(rvq: Calls) -> None:
    """Alone each of them would get 64 of the largest, which is 16 MiB."""
    for queue in ("b", "a"):
        rvq.create(payloads=[f'"{"x" * (LARGEST - 2)}"'] * 130, queue=queue)
    rows = rvq.rows(
        "SELECT claim, octet_length(payload)"
        "  FROM rvq.claim_sub_tasks('{anna,ben,carl,dora}', '{64,64,64,64}', 60, '{b,a}')"
    )
    assert rows == [(claim, LARGEST) for claim in (1, 2, 3, 4) for _ in range(64)]


def test_several_claims_go_on_in_the_next_queue_where_the_first_one_ended(rvq: Calls) -> None:
    first, second = rvq.create(3, queue="b"), rvq.create(3, queue="a")
    rows = rvq.rows(
        "SELECT claim, id, queue FROM rvq.claim_sub_tasks('{anna,ben,carl}', '{2,1,2}', 60, '{b,a}')"
    )
    assert rows == [
        (1, first + 1, "b"), (1, first + 2, "b"), (2, first + 3, "b"),
        (3, second + 1, "a"), (3, second + 2, "a"),
    ]  # fmt: skip
    assert [s.worker_id for s in rvq.sub_tasks(second)] == ["carl", "carl", None]


def test_no_more_is_leased_than_returned(rvq: Calls) -> None:
    task_id = rvq.create(10)
    assert len(rvq.claim(4)) == 4
    assert rvq.task(task_id).counts == {"queued": 6, "claimed": 4}
    assert len(rvq.claim(100)) == 6
    assert rvq.claim(100) == []


def test_a_claim_of_large_payloads_ends_after_16_mib_and_leases_no_more_than_it_returns(rvq: Calls) -> None:
    largest = f'"{"x" * (LARGEST - 2)}"'
    task_id = rvq.create(payloads=[largest] * 200)
    first = rvq.claim(1000)
    assert [lease.id for lease in first] == [task_id + number for number in range(1, 129)]
    assert {lease.payload for lease in first} == {largest}
    assert rvq.task(task_id).counts == {"queued": 72, "claimed": 128}
    assert [lease.id for lease in rvq.claim(1000)] == [task_id + number for number in range(129, 201)]


def test_large_payloads_of_one_queue_leave_no_room_for_those_of_the_next(rvq: Calls) -> None:
    for queue in ("a", "b"):
        rvq.create(payloads=[f'"{"x" * (LARGEST - 2)}"'] * 70, queue=queue)
    assert {lease.queue for lease in rvq.claim(1000, queues=["a", "b"])} == {"a"}
    assert {lease.queue for lease in rvq.claim(1000, queues=["a", "b"])} == {"b"}


def test_small_payloads_are_claimed_a_thousand_at_a_time(rvq: Calls) -> None:
    task_id = rvq.create(payloads=[str(number) for number in range(1200)])
    claimed = [(lease.id, lease.payload) for lease in rvq.claim(1000)]
    assert claimed == [(task_id + number + 1, str(number)) for number in range(1000)]
    assert rvq.task(task_id).counts == {"queued": 200, "claimed": 1000}


def test_the_oldest_go_first_across_tasks(rvq: Calls) -> None:
    first, second = rvq.create(2), rvq.create(2)
    assert [lease.id for lease in rvq.claim(3)] == [first + 1, first + 2, second + 1]


def test_every_claim_has_a_token_of_its_own(rvq: Calls) -> None:
    rvq.create(20)
    leases = rvq.claim(20)
    rvq.release(*leases)
    again = rvq.claim(20)
    assert len({lease.token for lease in [*leases, *again]}) == 40


def test_two_claimers_get_different_sub_tasks_without_waiting(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    rvq.create(4)
    other = in_transaction()
    held = other.claim(2)
    rest = rvq.claim(10)
    assert len(rest) == 2
    assert not {lease.id for lease in held} & {lease.id for lease in rest}
    other.connection.commit()


def test_what_was_claimed_while_a_claim_looks_on_is_passed_over_and_not_locked(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    """The claim's view is from before the other one's commit: to follow a row would raise an error here."""
    task_id = rvq.create(4)
    other = in_transaction()
    other.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    other.rows("SELECT")
    leases = rvq.claim(2)
    assert [lease.id for lease in other.claim(2)] == [task_id + 3, task_id + 4]
    assert rvq.succeed(*leases) == ["succeeded", "succeeded"]
    other.connection.commit()


def test_what_a_claim_rolled_back_had_comes_first_again_after_a_thousand_transactions(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    task_id = rvq.create(4)
    other = in_transaction()
    other.claim(1)
    other.connection.rollback()
    assert rvq.claim_one().id == task_id + 2, "what was touched of late is passed over"
    for _ in range(1000):
        rvq.rows("SELECT pg_current_xact_id()")
    assert rvq.claim_one().id == task_id + 1


def test_a_claim_rolled_back_leases_nothing(rvq: Calls, in_transaction: Callable[[], Calls]) -> None:
    rvq.create(1)
    other = in_transaction()
    lost = other.claim_one()
    other.connection.rollback()
    lease = rvq.claim_one()
    assert (lease.id, lease.attempt) == (lost.id, 1)
    assert rvq.succeed(lost) == ["stale"]


def test_a_claim_writes_no_row_of_the_task(rvq: Calls) -> None:
    task_id = rvq.create(1)
    place = "SELECT ctid::text, xmin::text FROM rvq.open_tasks WHERE id = %s"
    before = rvq.rows(place, (task_id,))
    rvq.claim(1)
    assert rvq.rows(place, (task_id,)) == before


def test_sub_tasks_of_tasks_of_two_days_come_in_one_claim_oldest_first(
    rvq: Calls, database: Database
) -> None:
    yesterday = rvq.create(1)
    database.move_clock(86_400)
    today = rvq.create(1)
    assert [lease.id for lease in rvq.claim(2)] == [yesterday + 1, today + 1]


def test_queues_of_two_days_come_in_the_order_of_preference(rvq: Calls, database: Database) -> None:
    older = rvq.create(1, queue="second")
    database.move_clock(86_400)
    newer = rvq.create(1, queue="first")
    leases = rvq.claim(2, queues=["first", "second"])
    assert [lease.id for lease in leases] == [newer + 1, older + 1]


def test_an_unknown_queue_is_empty(rvq: Calls) -> None:
    rvq.create(1)
    assert rvq.claim(1, queues=["nobody-uses-it"]) == []


def test_claim_queues_what_is_due_by_itself(rvq: Calls, database: Database) -> None:
    rvq.create(2, not_before=database.value("SELECT clock_timestamp()") + timedelta(seconds=30))
    assert rvq.claim(2) == []
    database.move_clock(31)
    assert len(rvq.claim(2)) == 2


def test_a_thousand_at_once_are_all_different(rvq: Calls) -> None:
    rvq.create(1_000)
    leases: list[Lease] = rvq.claim(1_000)
    assert len({lease.id for lease in leases}) == len({lease.token for lease in leases}) == 1_000
    assert sorted(leases) == leases


def test_a_claim_promotes_a_bounded_batch_however_much_is_due_elsewhere(
    rvq: Calls, database: Database
) -> None:
    rvq.create(5_000, queue="other", not_before=rvq.value("SELECT clock_timestamp()") + timedelta(seconds=5))
    database.move_clock(6)
    assert rvq.claim(1) == []
    assert rvq.value("SELECT count(*) FROM rvq.open_sub_tasks WHERE status = 'queued'") == 1_000


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_payload_that_is_gone_shifts_no_other_to_a_wrong_sub_task(rvq: Calls, index: int) -> None:
    task_id = rvq.create(3)
    rvq.rows("DELETE FROM rvq.sub_tasks WHERE id = %s", (task_id + 1 + index,))
    found = {lease.id: lease.payload for lease in rvq.claim(3)}
    assert found == {task_id + 1 + n: str(n) for n in range(3) if n != index}
    rvq.cancel(task_id)
