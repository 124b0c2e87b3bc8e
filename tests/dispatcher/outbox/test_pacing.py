"""How long the claim loop pauses, by what claims brought."""

from __future__ import annotations

import pytest

from dispatcher.outbox.pacing import (
    BATCH_PAUSE,
    BEHIND,
    LONGEST_PAUSE,
    MANY,
    PROMPT_FOR,
    PROMPT_PAUSE,
    Pacing,
)


@pytest.fixture
def pacing() -> Pacing:
    return Pacing(most_running=16)


def test_many_are_let_gather_and_few_are_not(pacing: Pacing) -> None:
    assert pacing.after(MANY, MANY, 0.0, now=0.0) == BATCH_PAUSE
    assert pacing.after(MANY - 1, MANY - 1, 0.0, now=0.0) == PROMPT_PAUSE


def test_a_few_between_bursts_do_not_end_the_gathering(pacing: Pacing) -> None:
    brought = (MANY + 2, 1, 0)
    assert [pacing.after(count, count, 0.0, now=0.0) for count in brought] == [
        BATCH_PAUSE,
        BATCH_PAUSE,
        PROMPT_PAUSE,
    ]


def test_nothing_gathers_where_there_would_be_no_room_for_it(pacing: Pacing) -> None:
    assert pacing.after(16, 16, 0.0, now=0.0) == BATCH_PAUSE
    assert pacing.after(17, 17, 0.0, now=0.0) == PROMPT_PAUSE
    assert pacing.after(0, 17, 0.0, now=0.0) == PROMPT_PAUSE


def test_nothing_gathers_while_deliveries_wait_longer_than_gathering_takes(pacing: Pacing) -> None:
    assert pacing.after(10, 10, BEHIND * 1.01, now=0.0) == PROMPT_PAUSE
    assert pacing.after(10, 10, BEHIND, now=0.0) == BATCH_PAUSE


def test_after_a_quiet_second_it_asks_less_and_less_often_and_at_once_again(pacing: Pacing) -> None:
    assert pacing.after(1, 1, 0.0, now=0.0) == PROMPT_PAUSE
    assert pacing.after(0, 0, 0.0, now=PROMPT_FOR * 0.9) == PROMPT_PAUSE
    pauses = [pacing.after(0, 0, 0.0, now=PROMPT_FOR + number) for number in range(15)]
    assert pauses[0] < BATCH_PAUSE
    assert 0.8 * LONGEST_PAUSE <= pauses[-1] <= LONGEST_PAUSE
    assert pacing.after(1, 1, 0.0, now=99.0) == PROMPT_PAUSE
