"""A steady stream is waited for, a burst no longer than it lasts, and who comes seldom hardly at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from app.db.gap_estimate import SELDOM, GapEstimate

SHORTEST, LONGEST = 0.003, 0.01


def patience_after(gaps: Iterable[float], arrivals: GapEstimate | None = None) -> float:
    arrivals = arrivals or GapEstimate(SHORTEST, LONGEST)
    for now in itertools.accumulate(gaps):
        arrivals.note(now)
    return arrivals.patience


def test_a_steady_stream_is_waited_for_a_few_times_its_usual_gap() -> None:
    assert 0.005 < patience_after([0.002] * 100) < 0.009


def test_a_burst_is_not_waited_for_once_it_is_over() -> None:
    burst = [0.5, *[0.0003] * 7]
    assert patience_after(burst * 20) == SHORTEST


def test_who_comes_seldom_is_hardly_waited_for() -> None:
    assert patience_after([0.05] * 100) == SHORTEST
    assert patience_after([]) <= LONGEST


def test_the_patience_follows_a_change_within_a_dozen_calls() -> None:
    arrivals = GapEstimate(SHORTEST, LONGEST)
    assert patience_after([1.0] * 50, arrivals) == SHORTEST
    assert patience_after([100.0, *[SELDOM / 2] * 14], arrivals) > SHORTEST


@pytest.mark.parametrize("gap", [1e-6, 1e-4, 0.001, 0.004, 0.006, 0.1, 10.0])
def test_the_patience_keeps_to_its_bounds(gap: float) -> None:
    assert SHORTEST <= patience_after([gap] * 200) <= LONGEST
