"""Deliveries: claimed fairly, settled once, never lost, every attempt in the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.sql.calls import HOST, URL, Calls, Delivery, other_token
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database


def ended(rvq: Calls, count: int = 1, host: str = HOST) -> list[int]:
    """Tasks that have just ended, with a webhook to that host each."""
    tasks = [rvq.create(webhook=f"https://{host}/{n}", host=host) for n in range(count)]
    rvq.succeed(*rvq.claim(count))
    return tasks


def due_in(rvq: Calls, delivery_id: int) -> float:
    sql = "SELECT extract(epoch FROM due_at - rvq.clock())::float8 FROM rvq.due_deliveries WHERE id = %s"
    return float(rvq.value(sql, (delivery_id,)))


def deliveries_by_status(rvq: Calls) -> dict[str, int]:
    found: dict[str, int] = rvq.stats()["deliveries"]
    return {status: count for status, count in found.items() if count}


# claim


def test_an_event_that_is_gone_holds_up_no_other_and_shifts_no_body(rvq: Calls) -> None:
    tasks = ended(rvq, 3)
    gone = rvq.rows("DELETE FROM rvq.events WHERE id = %s RETURNING id, xid, queue", (tasks[1],))
    claimed = rvq.claim_deliveries()
    sent = [(d.id, json.loads(d.body)["data"]["task_id"]) for d in claimed]
    assert sent == [(task_id, f"task_{task_id:016x}") for task_id in (tasks[0], tasks[2])]
    rvq.rows(
        "INSERT INTO rvq.events (id, xid, queue, occurred_at, succeeded, failed, cancelled, status, body)"
        " SELECT %s, %s, %s, rvq.clock(), 1, 0, 0, 'succeeded', '{}' RETURNING id",
        gone[0],
    )


def test_a_claim_carries_the_bytes_to_send(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries()
    assert (delivery.id, delivery.attempt, delivery.tries) == (task_id, 1, 1)
    assert (delivery.url, delivery.host) == (f"https://{HOST}/0", HOST)
    assert json.loads(delivery.body)["data"]["task_id"] == f"task_{task_id:016x}"


def test_a_claimed_delivery_is_claimed_by_nobody_else(rvq: Calls) -> None:
    ended(rvq, 3)
    assert len(rvq.claim_deliveries(2)) == 2
    assert len(rvq.claim_deliveries(10)) == 1
    assert rvq.claim_deliveries(10) == []


def test_the_oldest_of_a_host_go_first(rvq: Calls) -> None:
    tasks = ended(rvq, 1) + ended(rvq, 1) + ended(rvq, 1)
    assert [d.id for d in rvq.claim_deliveries(2)] == tasks[:2]


def test_a_host_never_has_more_in_flight_than_its_share(rvq: Calls) -> None:
    ended(rvq, 10, "slow.example")
    ended(rvq, 2, "fast.example")
    claimed = rvq.claim_deliveries(host_limit=3)
    assert sorted(d.host for d in claimed) == ["fast.example"] * 2 + ["slow.example"] * 3
    assert rvq.claim_deliveries(host_limit=3) == []
    rvq.settle(next(d for d in claimed if d.host == "slow.example"))
    assert [d.host for d in rvq.claim_deliveries(host_limit=3)] == ["slow.example"]


def test_the_share_holds_over_two_dispatchers_at_once(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    ended(rvq, 10)
    first, second = in_transaction(), another()
    assert len(first.claim_deliveries(host_limit=4)) == 4
    with background(second.claim_deliveries, host_limit=4) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == []


def test_the_host_that_waits_longest_is_served_first(rvq: Calls) -> None:
    ended(rvq, 3, "z-first.example")
    ended(rvq, 3, "a-second.example")
    claimed = rvq.claim_deliveries(4)
    assert [d.host for d in claimed][:3] == ["z-first.example"] * 3
    assert claimed[3].host == "a-second.example"


def test_many_hosts_are_all_served(rvq: Calls) -> None:
    for n in range(120):
        ended(rvq, 2, f"h{n}.example")
    assert len({d.host for d in rvq.claim_deliveries(500, host_limit=1)}) == 120


def test_deliveries_of_two_days_come_in_one_claim(rvq: Calls, database: Database) -> None:
    tasks = ended(rvq)
    database.move_clock(86_400)
    tasks += ended(rvq)
    assert {d.id for d in rvq.claim_deliveries()} == set(tasks)


# settle


def test_a_delivered_event_is_done(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries()
    assert rvq.settle(delivery, answer=b"\x00\xff ok") == [task_id]
    assert rvq.ledger(task_id) == [(1, "delivered", "delivered")]
    assert rvq.claim_deliveries() == []
    assert deliveries_by_status(rvq) == {"delivered": 1}
    (row,) = rvq.rows("SELECT * FROM rvq.list_deliveries_of_task(%s)", (task_id,))
    assert bytes(row[-1]) == b"\x00\xff ok"


def test_a_delivery_put_off_waits_and_comes_again_with_the_same_body(rvq: Calls, database: Database) -> None:
    (task_id,) = ended(rvq)
    (first,) = rvq.claim_deliveries()
    assert rvq.put_off(first, delay=300) == [task_id]
    assert 290 < due_in(rvq, task_id) <= 300
    assert rvq.claim_deliveries() == []
    database.move_clock(301)
    (second,) = rvq.claim_deliveries()
    assert (second.attempt, second.tries, second.body) == (2, 2, first.body)
    assert second.token != first.token
    assert rvq.ledger(task_id) == [(1, "timeout", "pending")]


def test_a_dead_delivery_is_not_sent_again_by_itself(rvq: Calls, database: Database) -> None:
    (task_id,) = ended(rvq)
    rvq.give_up(*rvq.claim_deliveries())
    database.move_clock(10**6)
    assert rvq.claim_deliveries() == []
    assert deliveries_by_status(rvq) == {"dead": 1}
    assert rvq.ledger(task_id) == [(1, "http_error", "dead")]


def test_the_attempts_time_is_in_the_ledger(rvq: Calls) -> None:
    ended(rvq)
    rvq.settle(*rvq.claim_deliveries())
    sql = "SELECT extract(epoch FROM ended_at - started_at)::float8 FROM rvq.delivery_attempts"
    assert rvq.value(sql) == 0.25


def test_settling_twice_changes_nothing_the_second_time(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries()
    assert rvq.settle(delivery) == [task_id]
    assert rvq.settle(delivery) == rvq.put_off(delivery) == rvq.give_up(delivery) == []
    assert rvq.ledger(task_id) == [(1, "delivered", "delivered")]


def test_the_same_delivery_twice_in_one_batch_is_settled_once(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries()
    assert rvq.settle(delivery, delivery) == [task_id]
    assert len(rvq.ledger(task_id)) == 1


def test_a_lost_lease_settles_nothing(rvq: Calls, database: Database) -> None:
    (task_id,) = ended(rvq)
    (lost,) = rvq.claim_deliveries(lease=30)
    database.move_clock(31)
    assert rvq.expire_deliveries() == 1
    (held,) = rvq.claim_deliveries()
    assert rvq.settle(lost) == rvq.settle(lost._replace(token=other_token())) == []
    assert rvq.release_deliveries(lost) == 0
    assert rvq.settle(held) == [task_id]
    assert rvq.ledger(task_id) == [(1, "unknown", "pending"), (2, "delivered", "delivered")]


def test_a_mixed_batch_settles_what_it_still_holds(rvq: Calls) -> None:
    tasks = ended(rvq, 4)
    one, two, three, four = rvq.claim_deliveries()
    rvq.settle(two)
    strangers: list[Delivery] = [two, three._replace(token=other_token()), one._replace(id=99)]
    assert sorted(rvq.settle(one, *strangers, four)) == [tasks[0], tasks[3]]


# leases of deliveries


def test_an_expired_lease_leaves_unknown_in_the_ledger_and_is_due_at_once(
    rvq: Calls, database: Database
) -> None:
    (task_id,) = ended(rvq)
    rvq.claim_deliveries(lease=30)
    assert rvq.expire_deliveries() == 0
    database.move_clock(31)
    assert rvq.expire_deliveries() == 1
    assert rvq.ledger(task_id) == [(1, "unknown", "pending")]
    assert deliveries_by_status(rvq) == {"pending": 1}
    (again,) = rvq.claim_deliveries()
    assert (again.attempt, again.tries) == (2, 2)


def test_delivery_leases_expire_in_bounded_batches(rvq: Calls, database: Database) -> None:
    ended(rvq, 5)
    rvq.claim_deliveries(lease=5)
    database.move_clock(6)
    assert [rvq.expire_deliveries(2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_settle_that_waited_for_the_expiry_changes_nothing(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls], database: Database
) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries(lease=5)
    database.move_clock(6)
    sweeper, settler = in_transaction(), another()
    assert sweeper.expire_deliveries() == 1
    with background(settler.settle, delivery) as answer:
        wait_until_blocked(rvq.connection, settler.connection, sweeper.connection)
        sweeper.connection.commit()
        assert answer.result(10) == []
    assert rvq.ledger(task_id) == [(1, "unknown", "pending")]


def test_released_deliveries_spend_nothing_and_leave_no_trace(rvq: Calls) -> None:
    tasks = ended(rvq, 2)
    assert rvq.release_deliveries(*rvq.claim_deliveries()) == 2
    assert [rvq.ledger(t) for t in tasks] == [[], []]
    assert [(d.attempt, d.tries) for d in rvq.claim_deliveries()] == [(1, 1), (1, 1)]


# breaker


def open_breaker(rvq: Calls, host: str = HOST) -> None:
    tasks = ended(rvq, 5, host)
    rvq.put_off(*(d for d in rvq.claim_deliveries() if d.id in tasks), delay=0)


def test_five_attempts_without_an_answer_rest_the_host_and_spend_no_attempts(
    rvq: Calls, database: Database
) -> None:
    open_breaker(rvq)
    ended(rvq, 2)
    assert rvq.claim_deliveries() == []
    ended(rvq, 1, "healthy.example")
    assert [d.host for d in rvq.claim_deliveries()] == ["healthy.example"]
    database.move_clock(2)
    (probe,) = rvq.claim_deliveries()
    assert (probe.host, probe.attempt) == (HOST, 2)


def test_a_probe_that_is_answered_closes_the_breaker(rvq: Calls, database: Database) -> None:
    open_breaker(rvq)
    database.move_clock(2)
    rvq.settle(*rvq.claim_deliveries())
    assert len(rvq.claim_deliveries()) == 4


def test_a_probe_that_fails_rests_the_host_for_twice_as_long_up_to_a_minute(
    rvq: Calls, database: Database
) -> None:
    open_breaker(rvq)
    moved, rests = 0.0, []
    for _ in range(8):
        sql = "SELECT extract(epoch FROM broken_until - rvq.clock())::float8 FROM rvq.webhook_hosts"
        rests.append(round(rvq.value(sql)))
        moved += rests[-1] + 1
        database.move_clock(moved)
        (probe,) = rvq.claim_deliveries()
        rvq.put_off(probe, delay=0)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]


def test_four_failures_and_an_answer_begin_anew(rvq: Calls) -> None:
    ended(rvq, 9)
    for _ in range(2):
        rvq.put_off(*rvq.claim_deliveries(4), delay=100)
        rvq.settle(*rvq.claim_deliveries(1))
        ended(rvq, 1)
    assert rvq.claim_deliveries() != []


def test_an_answer_that_refuses_is_an_answer(rvq: Calls) -> None:
    ended(rvq, 12)
    rvq.put_off(*rvq.claim_deliveries(10), outcome="http_error", delay=100)
    assert len(rvq.claim_deliveries()) == 2


# send again


def test_a_dead_delivery_sent_again_starts_its_schedule_and_goes_on_counting(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    (first,) = rvq.claim_deliveries()
    rvq.give_up(first)
    assert rvq.redeliver(task_id) == ["redelivered"]
    assert deliveries_by_status(rvq) == {"pending": 1}
    (second,) = rvq.claim_deliveries()
    assert (second.id, second.body) == (first.id, first.body)
    assert (second.attempt, second.tries) == (2, 1)
    rvq.settle(second)
    assert rvq.ledger(task_id) == [(1, "http_error", "dead"), (2, "delivered", "delivered")]


def test_a_delivered_event_can_be_sent_again(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    rvq.settle(*rvq.claim_deliveries())
    assert rvq.value("SELECT rvq.redeliver_task(%s)", (task_id,)) == "redelivered"
    assert deliveries_by_status(rvq) == {"pending": 1}
    rvq.settle(*rvq.claim_deliveries())
    assert deliveries_by_status(rvq) == {"delivered": 1}


def test_a_pending_delivery_sent_again_is_due_now(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    rvq.put_off(*rvq.claim_deliveries(), delay=5000)
    assert rvq.redeliver(task_id, task_id) == ["redelivered", "redelivered"]
    (delivery,) = rvq.claim_deliveries()
    assert (delivery.attempt, delivery.tries) == (2, 1)


def test_one_that_is_being_sent_is_left_alone_and_the_outcome_says_so(rvq: Calls) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries()
    assert rvq.redeliver(task_id, 1, task_id) == ["in_flight", "unknown", "in_flight"]
    assert rvq.value("SELECT rvq.redeliver_task(%s)", (task_id,)) == "in_flight"
    assert rvq.claim_deliveries() == []
    assert rvq.settle(delivery) == [task_id]
    assert rvq.redeliver(task_id) == ["redelivered"]


@pytest.mark.parametrize("decision", ["delivered", "retry"])
def test_a_delivery_that_was_sent_a_thousand_times_is_not_sent_again(rvq: Calls, decision: str) -> None:
    (task_id,) = ended(rvq)
    rvq.settle(*rvq.claim_deliveries(), decision="delivered")
    rvq.rows("UPDATE rvq.delivery_attempts SET attempt = 998")
    for attempt in (999, 1000):
        assert rvq.redeliver(task_id) == ["redelivered"]
        (delivery,) = rvq.claim_deliveries()
        assert delivery.attempt == attempt
        rvq.settle(delivery, decision=decision, delay=5)
    assert rvq.redeliver(task_id) == ["too_often"]
    assert rvq.value("SELECT rvq.redeliver_task(%s)", (task_id,)) == "too_often"
    assert rvq.claim_deliveries() == []


def test_a_task_without_an_end_or_without_a_webhook_has_nothing_to_send(rvq: Calls) -> None:
    rvq.create()
    rvq.succeed(rvq.claim_one())
    silent = rvq.tasks()[0].id
    unfinished = rvq.create(webhook=URL)
    for task_id in (silent, unfinished):
        assert rvq.value("SELECT rvq.redeliver_task(%s)", (task_id,)) == "nothing_to_send"


def test_sending_again_waits_for_a_settle_under_way_and_counts_from_it(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries()
    settler, redeliverer = in_transaction(), another()
    settler.settle(delivery)
    with background(redeliverer.redeliver, task_id) as answer:
        wait_until_blocked(rvq.connection, redeliverer.connection, settler.connection)
        settler.connection.commit()
        assert answer.result(10) == ["redelivered"]
    assert deliveries_by_status(rvq) == {"pending": 1}
    (again,) = rvq.claim_deliveries()
    assert (again.attempt, again.tries) == (2, 1)


def test_two_that_send_again_at_once_make_one_delivery(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    (task_id,) = ended(rvq)
    rvq.give_up(*rvq.claim_deliveries())
    first, second = in_transaction(), another()
    first.redeliver(task_id)
    with background(second.redeliver, task_id) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == ["redelivered"]
    assert len(rvq.claim_deliveries()) == 1


def test_a_reset_meanwhile_makes_every_lease_unknown(rvq: Calls, database: Database) -> None:
    (task_id,) = ended(rvq)
    (delivery,) = rvq.claim_deliveries()
    database.rows("SELECT rvq.reset()")
    assert rvq.settle(delivery) == rvq.put_off(delivery) == []
    assert rvq.release_deliveries(delivery) == rvq.expire_deliveries() == 0
    assert rvq.redeliver(task_id) == ["unknown"]
    assert rvq.ledger(task_id) == []
