"""A steady stream is waited for, a burst no longer than it lasts, and rare callers hardly at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from app.db.coalescing import RARE_GAP, GapEstimate

SHORTEST, LONGEST = 0.003, 0.01


def wait_after(gaps: Iterable[float], estimate: GapEstimate | None = None) -> float:
    estimate = estimate or GapEstimate(SHORTEST, LONGEST)
    for now in itertools.accumulate(gaps):
        estimate.record(now)
    return estimate.wait_seconds


def test_a_steady_stream_is_waited_for_a_few_times_its_usual_gap() -> None:
    assert 0.005 < wait_after([0.002] * 100) < 0.009


def test_a_burst_is_not_waited_for_once_it_is_over() -> None:
    burst = [0.5, *[0.0003] * 7]
    assert wait_after(burst * 20) == SHORTEST


def test_a_caller_who_comes_rarely_is_hardly_waited_for() -> None:
    assert wait_after([0.05] * 100) == SHORTEST
    assert wait_after([]) <= LONGEST


def test_the_wait_follows_a_change_within_a_dozen_calls() -> None:
    estimate = GapEstimate(SHORTEST, LONGEST)
    assert wait_after([1.0] * 50, estimate) == SHORTEST
    assert wait_after([100.0, *[RARE_GAP / 2] * 14], estimate) > SHORTEST


@pytest.mark.parametrize("gap", [1e-6, 1e-4, 0.001, 0.004, 0.006, 0.1, 10.0])
def test_the_wait_keeps_to_its_bounds(gap: float) -> None:
    assert SHORTEST <= wait_after([gap] * 200) <= LONGEST
