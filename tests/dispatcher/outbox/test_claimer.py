"""The claim loop's step: how much it takes, of whom, what it gives back, and how long it pauses."""

from __future__ import annotations

import time

import pytest

from dispatcher.outbox.claimer import (
    BATCH_PAUSE,
    BEHIND,
    LONGEST_PAUSE,
    MANY,
    PROMPT_FOR,
    PROMPT_PAUSE,
    Pacing,
)
from dispatcher.outbox.in_flight import MOST_UNSETTLED, SLOW_AFTER
from tests.dispatcher.rig import Tasks
from tests.dispatcher.steps import Steps, attempt, stepping
from tests.support.database import Database

ONE, OTHER = "http://one.test/hook", "http://other.test/hook"


def deliver_all(steps: Steps, rounds: int, took: float = 0.0) -> list[int]:
    """Claim, answer and settle, again and again: how many were claimed each time."""
    sizes = []
    for _ in range(rounds):
        claimed = steps.claim()
        sizes.append(len(claimed))
        for delivery in claimed:
            steps.end(delivery, attempt(), took)
        steps.settler.step()
    return sizes


def test_a_new_host_gets_one_and_each_quick_answer_earns_it_more_up_to_three_quarters(
    database: Database,
) -> None:
    Tasks(database.url).finish(ONE, 60)
    with stepping(database.url, threads=8) as steps:
        assert deliver_all(steps, 6) == [1, 2, 4, 6, 6, 6]


def test_a_slow_host_earns_little(database: Database) -> None:
    Tasks(database.url).finish(ONE, 60)
    with stepping(database.url, threads=32) as steps:
        assert deliver_all(steps, 6, took=SLOW_AFTER + 1) == [1, 2, 4, 4, 4, 4]


def test_a_host_that_stops_answering_is_halved_at_each_failure(database: Database) -> None:
    Tasks(database.url).finish(ONE, 60)
    with stepping(database.url, threads=8) as steps:
        deliver_all(steps, 4)
        for delivery in steps.claim()[:2]:
            steps.end(delivery, attempt("unknown"))
        assert steps.in_flight.limits() == (["one.test"], [1 + 2])


def test_with_all_threads_busy_nothing_is_claimed_and_slow_ones_make_room(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Tasks(database.url)
    for n in range(3):
        tasks.finish(f"http://host-{n}.test/hook", 3)
    with stepping(database.url, threads=2) as steps:
        assert len(steps.claim()) == 2
        assert steps.claim() == []
        now = time.monotonic()
        monkeypatch.setattr("dispatcher.outbox.in_flight.time.monotonic", lambda: now + SLOW_AFTER + 0.1)
        assert [delivery.host for delivery in steps.claim()] == ["host-2.test"]
    database.rows("SELECT rvq.reset()")


def test_what_waits_to_be_settled_takes_no_room_of_its_host_but_not_without_bound(database: Database) -> None:
    Tasks(database.url).finish(ONE, MOST_UNSETTLED + 10)
    claimed = 0
    with stepping(database.url, threads=8) as steps:
        while batch := steps.claim():
            claimed += len(batch)
            for delivery in batch:
                steps.end(delivery, attempt())
        assert MOST_UNSETTLED <= claimed < MOST_UNSETTLED + 8
        while steps.in_flight.unsettled:
            steps.settler.step()
    assert database.value("SELECT count(*) FROM rvq.due_deliveries") == MOST_UNSETTLED + 10 - claimed


def test_a_lease_outlives_the_attempt_and_leaves_time_to_record_it(database: Database) -> None:
    Tasks(database.url).finish(ONE)
    with stepping(database.url) as steps:
        (delivery,) = steps.claim()
        seconds = database.value(
            "SELECT extract(epoch FROM lease_expires_at - rvq.clock()) FROM rvq.due_deliveries"
        )
        assert 25 < seconds <= 30
        assert delivery.expires_at - time.monotonic() <= 30


def test_what_was_not_begun_is_given_back_without_an_attempt_spent(database: Database) -> None:
    Tasks(database.url).finish(ONE)
    with stepping(database.url) as steps:
        steps.claimer.step()
        steps.deliverer.give_back()
        assert steps.in_flight.running == 0
    row = database.row("SELECT attempt, tries, lease_token FROM rvq.due_deliveries")
    assert row == (0, 0, None)


def test_after_stop_nothing_is_claimed(database: Database) -> None:
    Tasks(database.url).finish(ONE)
    with stepping(database.url) as steps:
        steps.claimer.stop()
        assert steps.claim() == []
    assert database.value("SELECT attempt FROM rvq.due_deliveries") == 0


def test_an_idle_loop_asks_less_and_less_often_and_a_busy_one_at_once_again(database: Database) -> None:
    with stepping(database.url) as steps:
        pauses = [steps.claimer.step() for _ in range(15)]
        assert pauses[0] < 0.02
        assert 0.2 <= pauses[-1] <= 0.25
        Tasks(database.url).finish(ONE)
        assert [steps.claimer.step() for _ in range(3)] == [PROMPT_PAUSE] * 3


def test_the_host_that_waits_longest_is_served_first(database: Database) -> None:
    tasks = Tasks(database.url)
    tasks.finish(ONE, 3)
    tasks.finish(OTHER, 3)
    with stepping(database.url, threads=1) as steps:
        assert [delivery.host for delivery in steps.claim()] == ["one.test"]


def test_while_its_breaker_is_open_a_host_gets_nothing_and_no_attempt_is_spent(database: Database) -> None:
    tasks = Tasks(database.url)
    tasks.finish(ONE, 20)
    with stepping(database.url) as steps:
        for _ in range(5):
            for delivery in steps.claim():
                steps.end(delivery, attempt("timeout"))
            steps.settler.step()
        assert steps.claim() == []
    attempts = "SELECT count(*) FROM rvq.due_deliveries WHERE attempt > 0"
    assert database.value(attempts) == database.value("SELECT count(*) FROM rvq.delivery_attempts") == 5


@pytest.fixture
def pacing() -> Pacing:
    return Pacing(most_running=16)


def test_many_are_let_gather_and_few_are_not(pacing: Pacing) -> None:
    assert pacing.pause(MANY, MANY, 0.0, now=0.0) == BATCH_PAUSE
    assert pacing.pause(MANY - 1, MANY - 1, 0.0, now=0.0) == PROMPT_PAUSE


def test_a_few_between_bursts_do_not_end_the_gathering(pacing: Pacing) -> None:
    brought = (MANY + 2, 1, 0)
    assert [pacing.pause(count, count, 0.0, now=0.0) for count in brought] == [
        BATCH_PAUSE,
        BATCH_PAUSE,
        PROMPT_PAUSE,
    ]


def test_nothing_gathers_where_there_would_be_no_room_for_it(pacing: Pacing) -> None:
    assert pacing.pause(16, 16, 0.0, now=0.0) == BATCH_PAUSE
    assert pacing.pause(17, 17, 0.0, now=0.0) == PROMPT_PAUSE
    assert pacing.pause(0, 17, 0.0, now=0.0) == PROMPT_PAUSE


def test_nothing_gathers_while_deliveries_wait_longer_than_gathering_takes(pacing: Pacing) -> None:
    assert pacing.pause(10, 10, BEHIND * 1.01, now=0.0) == PROMPT_PAUSE
    assert pacing.pause(10, 10, BEHIND, now=0.0) == BATCH_PAUSE


def test_after_a_quiet_second_it_asks_less_and_less_often_and_at_once_again(pacing: Pacing) -> None:
    assert pacing.pause(1, 1, 0.0, now=0.0) == PROMPT_PAUSE
    assert pacing.pause(0, 0, 0.0, now=PROMPT_FOR * 0.9) == PROMPT_PAUSE
    pauses = [pacing.pause(0, 0, 0.0, now=PROMPT_FOR + number) for number in range(15)]
    assert pauses[0] < BATCH_PAUSE
    assert 0.8 * LONGEST_PAUSE <= pauses[-1] <= LONGEST_PAUSE
    assert pacing.pause(1, 1, 0.0, now=99.0) == PROMPT_PAUSE
