"""Pressure is what batches take beyond what they need, learned from the batches alone, without a clock."""

from __future__ import annotations

import statistics

import pytest

from app.db.coalescing import LONGEST_SECONDS, Pressure


def after(*calls: tuple[int, float]) -> Pressure:
    """Return the pressure after calls of (items, seconds)."""
    pressure = Pressure()
    for size, seconds in calls:
        pressure.record(size, seconds)
    return pressure


def test_there_is_none_before_the_first_call_and_after_calls_that_take_what_they_need() -> None:
    assert Pressure().held_up == 0.0
    assert after(*[(1, 0.001)] * 1000).held_up == pytest.approx(0.0, abs=1e-6)


def test_calls_that_take_longer_than_the_shortest_are_held_up_by_the_difference() -> None:
    assert after((1, 0.001), *[(1, 0.005)] * 50).held_up == pytest.approx(0.004, rel=0.05)


def test_a_large_call_is_measured_by_large_ones() -> None:
    """It takes longer since it does more: that is no pressure."""
    assert after((1, 0.001), *[(64, 0.02), (1, 0.001)] * 50).held_up == pytest.approx(0.0, abs=1e-4)


def test_one_slow_call_among_many_counts_a_fifth() -> None:
    pressure = after(*[(1, 0.001)] * 50, (1, 0.101))
    assert pressure.held_up == pytest.approx(0.02, rel=0.01)


def test_it_is_gone_a_few_calls_after_its_cause() -> None:
    pressure = after((1, 0.001), *[(1, 0.011)] * 50)
    for _ in range(20):
        pressure.record(1, 0.001)
    assert pressure.held_up < 0.0002


def test_calls_that_are_slower_for_good_are_no_longer_held_up_in_the_end() -> None:
    """Another machine, a longer way, another plan: what a call needs has changed."""
    pressure = after((1, 0.001), *[(1, 0.002)] * 5000)
    assert pressure.held_up == pytest.approx(0.0, abs=1e-5)


def waits_at(calls_a_second: float, pressure: Pressure, rounds: int = 400) -> list[float]:
    """Return the last waits of a kind of which one batch at a time goes, on a CPU shared as in a queue.

    A batch needs 2 ms of it and 0.5 ms for each item, and gathers while it waits and while it is under way.
    """
    took, waits = 0.0025, []
    for size in range(1, 256):
        pressure._shortest.setdefault(size.bit_length(), 0.002 + 0.0005 * size)
    for _ in range(rounds):
        cycle = min(pressure.held_up, LONGEST_SECONDS) + took
        items = max(1.0, cycle * calls_a_second)
        needs = 0.002 + 0.0005 * items
        took = needs / (1 - min(needs / max(cycle, 1 / calls_a_second), 0.95))
        pressure.record(round(items), took)
        waits.append(min(pressure.held_up, LONGEST_SECONDS))
    return waits[-60:]


@pytest.mark.parametrize("calls_a_second", [10, 50, 150, 300, 500, 700, 833, 1000, 1200])
def test_a_wait_settles_at_the_same_length_wherever_it_began(calls_a_second: int) -> None:
    """There is nothing to flap between."""
    calm, pressed = Pressure(), Pressure()
    pressed.held_up = LONGEST_SECONDS
    waits = [*waits_at(calls_a_second, calm), *waits_at(calls_a_second, pressed)]
    assert max(waits) <= 2 * min(waits) + 0.0005


def test_the_more_calls_there_are_the_longer_they_wait() -> None:
    waits = [statistics.mean(waits_at(rate, Pressure())) for rate in (10, 150, 500, 1200)]
    assert waits == sorted(waits)
    assert waits[0] < 0.0001
    assert waits[-1] > 0.02
