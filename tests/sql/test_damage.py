"""One damaged row stops nothing else: it is set aside with a reason, and the counters stay true."""

from __future__ import annotations

import pytest

from tests.sql.calls import URL, Calls
from tests.support.database import Database


def set_aside(rvq: Calls) -> list[tuple[str, int, str]]:
    rows = rvq.rows("SELECT kind, id, reason FROM rvq.set_aside ORDER BY kind, id")
    return [(kind, number, reason) for kind, number, reason in rows]


def ended(rvq: Calls) -> int:
    """An ended task with a webhook to send."""
    task_id = rvq.create(webhook=URL)
    rvq.succeed(rvq.claim_one())
    return task_id


@pytest.mark.parametrize("column", ["attempt", "tries"])
def test_a_delivery_with_as_many_attempts_as_there_are_numbers_stops_no_other(
    rvq: Calls, column: str
) -> None:
    worn, healthy = ended(rvq), ended(rvq)
    rvq.rows(f"UPDATE rvq.due_deliveries SET {column} = 32767 WHERE id = %s", (worn,))
    assert [delivery.id for delivery in rvq.claim_deliveries()] == [healthy]
    assert [outcome for _, outcome, _ in rvq.ledger(worn)] == ["internal_error"]
    assert set_aside(rvq) == [("delivery", worn, "attempts_used_up")]
    assert rvq.stats()["deliveries"] == {"pending": 1, "delivered": 0, "dead": 1}


def test_one_that_is_used_up_is_ended_and_not_sent_again(rvq: Calls) -> None:
    worn = ended(rvq)
    rvq.rows("UPDATE rvq.due_deliveries SET attempt = 32765")
    rvq.put_off(*rvq.claim_deliveries(), delay=0)
    assert rvq.claim_deliveries() == []
    assert rvq.ledger(worn) == [(32766, "timeout", "pending"), (32767, "internal_error", "dead")]
    assert rvq.redeliver(worn) == ["too_often"]
    assert rvq.stats()["deliveries"] == {"pending": 0, "delivered": 0, "dead": 1}


def test_an_entry_of_the_release_before_under_the_last_number_becomes_dead(rvq: Calls) -> None:
    worn = ended(rvq)
    rvq.rows("UPDATE rvq.due_deliveries SET attempt = 32765")
    rvq.put_off(*rvq.claim_deliveries(), delay=0)
    rvq.rows("UPDATE rvq.delivery_attempts SET attempt = 32767")
    rvq.rows("UPDATE rvq.due_deliveries SET attempt = 32767")
    assert rvq.claim_deliveries() == []
    assert rvq.ledger(worn) == [(32767, "timeout", "dead")]


def test_deliveries_without_their_event_become_dead_and_the_next_claim_has_the_others(rvq: Calls) -> None:
    lost, healthy = [ended(rvq) for _ in range(3)], [ended(rvq) for _ in range(2)]
    rvq.rows("UPDATE rvq.due_deliveries SET due_at = due_at - interval '1 hour' WHERE id = ANY (%s)", (lost,))
    kept = rvq.rows("DELETE FROM rvq.events WHERE id = ANY (%s) RETURNING *", (lost,))
    assert len(kept) == 3
    assert rvq.claim_deliveries(host_limit=3) == []
    assert [delivery.id for delivery in rvq.claim_deliveries(host_limit=3)] == healthy
    assert [rvq.ledger(task_id) for task_id in lost] == [[(1, "internal_error", "dead")]] * 3
    assert set_aside(rvq) == [("delivery", task_id, "event_lost") for task_id in lost]
    rvq.rows("SELECT rvq.reset()")


def test_a_delivery_of_which_nothing_else_is_left_leaves(rvq: Calls) -> None:
    rvq.rows(
        "INSERT INTO rvq.due_deliveries (id, due_at, queue, host, url)"
        " VALUES (1, now() - interval '1 hour', 'default', 'h', %s)",
        (URL,),
    )
    rvq.rows("INSERT INTO rvq.counter_deltas (queue, deliveries_pending) VALUES ('default', 1)")
    healthy = ended(rvq)
    assert [delivery.id for delivery in rvq.claim_deliveries()] == [healthy]
    assert set_aside(rvq) == [("delivery", 1, "event_lost")]
    assert rvq.rows("SELECT counter FROM rvq.audit() WHERE counted <> truth") == []


def test_a_sub_task_without_its_payload_fails_and_the_others_are_claimed(rvq: Calls) -> None:
    damaged, healthy = rvq.create(2, webhook=URL), rvq.create(2)
    rvq.rows("DELETE FROM rvq.sub_tasks WHERE id = %s", (damaged + 1,))
    leases = rvq.claim(10)
    assert [lease.id for lease in leases] == [damaged + 2, healthy + 1, healthy + 2]
    assert [lease.payload for lease in leases] == ["1", "0", "1"]
    assert set_aside(rvq) == [("sub_task", damaged + 1, "payload_lost")]
    assert rvq.expire() == 1
    rvq.succeed(*leases)
    assert rvq.task(damaged).status == "failed"
    error = rvq.value("SELECT error FROM rvq.outcomes WHERE id = %s", (damaged + 1,))
    assert '"code":"payload_lost"' in error


def test_a_claim_that_meets_only_damage_is_empty_and_the_next_one_is_not(rvq: Calls) -> None:
    damaged, healthy = rvq.create(3, policy="fail_fast"), rvq.create()
    rvq.rows("DELETE FROM rvq.sub_tasks WHERE id > %s AND id <= %s", (damaged, damaged + 3))
    assert rvq.claim(3) == []
    assert [lease.id for lease in rvq.claim(3)] == [healthy + 1]
    assert rvq.expire() == 3
    assert rvq.task(damaged).status == "failed"


def test_what_lost_its_payload_can_be_retried_and_fails_again(rvq: Calls) -> None:
    task_id = rvq.create(2)
    rvq.rows("DELETE FROM rvq.sub_tasks WHERE id = %s", (task_id + 1,))
    rvq.succeed(*rvq.claim(2))
    rvq.expire()
    assert rvq.retry(task_id) == "retried"
    assert rvq.claim(2) == []
    rvq.expire()
    assert rvq.events(task_id) == [(0, "failed"), (1, "failed")]


def test_a_sub_task_that_ran_as_often_as_there_are_numbers_runs_once_more(
    rvq: Calls, database: Database
) -> None:
    task_id, other = rvq.create(max_attempts=1), rvq.create()
    rvq.rows(
        "UPDATE rvq.open_sub_tasks SET attempt = 32766, max_attempts = 32767 WHERE id = %s", (task_id + 1,)
    )
    for _ in range(3):
        worn, *_ = rvq.claim(1)
        assert (worn.id, worn.attempt) == (task_id + 1, 32767)
        assert rvq.fail(worn) == ["failed"]
        assert rvq.retry(task_id) == "retried"
    assert [lease.id for lease in rvq.claim(2)] == [task_id + 1, other + 1]


def test_a_task_ends_no_more_often_than_its_id_has_room_for(rvq: Calls) -> None:
    """One more, and its event would have the id of another task's."""
    task_id = rvq.create()
    rvq.rows("UPDATE rvq.open_tasks SET run = 16383")
    rvq.fail_for_good(rvq.claim_one())
    assert rvq.retry(task_id) == "nothing_failed"
