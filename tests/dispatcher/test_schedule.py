"""What follows an attempt: every outcome at every attempt number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.webhooks.outcomes import OUTCOMES, Outcome
from dispatcher.http.attempt import Attempt
from dispatcher.http.retry_after import LONGEST
from dispatcher.schedule import MOST_ATTEMPTS, SCHEDULE, Decision, decide, delay_before

JITTERS = st.floats(0, 1, exclude_max=True)
NUMBERS = range(1, MOST_ATTEMPTS + 5)


def ended(outcome: Outcome, retry_after: float | None = None) -> Attempt:
    return Attempt(outcome=outcome, detail="", retry_after=retry_after)


def test_the_schedule_is_the_standards_ten_attempts() -> None:
    hour = 3600
    hours = [2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour]
    assert list(SCHEDULE) == [0, 5, 300, 1800, *hours]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_at_every_attempt_has_its_consequence(outcome: Outcome, number: int) -> None:
    decision = decide(ended(outcome), number, 0.5)
    if outcome == "delivered":
        assert decision == Decision("delivered", "delivered")
    elif outcome in ("gone", "not_allowed"):
        assert (decision.kind, decision.reason, decision.delay) == ("dead", outcome, None)
    elif number >= 10:
        assert decision == Decision("dead", "attempts_used_up")
    else:
        assert decision == Decision("retry", "retry", decision.delay)
        assert decision.delay == pytest.approx(SCHEDULE[number])


@given(st.integers(2, MOST_ATTEMPTS), JITTERS)
def test_a_delay_is_within_a_fifth_of_the_schedule(number: int, jitter: float) -> None:
    scheduled = SCHEDULE[number - 1]
    assert 0.8 * scheduled <= delay_before(number, jitter) <= 1.2 * scheduled


def test_jitter_reaches_both_ends() -> None:
    assert delay_before(3, 0.0) == pytest.approx(240)
    assert delay_before(3, 1 - 1e-12) == pytest.approx(360)


@given(st.integers(1, MOST_ATTEMPTS - 1), JITTERS, st.floats(0, LONGEST))
def test_retry_after_is_never_undercut_and_never_shortens_the_schedule(
    number: int, jitter: float, retry_after: float
) -> None:
    delay = decide(ended("http_error", retry_after), number, jitter).delay
    assert delay is not None
    assert delay >= retry_after
    assert delay >= decide(ended("http_error"), number, jitter).delay  # type: ignore[operator]
    assert delay <= 1.2 * max(LONGEST, SCHEDULE[number])


def test_deliveries_that_are_told_the_same_moment_are_spread() -> None:
    delays = {decide(ended("http_error", 3600), 1, jitter / 10).delay for jitter in range(10)}
    assert len(delays) == 10


def test_a_retry_after_does_not_keep_a_delivery_alive_beyond_its_attempts() -> None:
    assert decide(ended("http_error", 60), MOST_ATTEMPTS, 0.5).kind == "dead"
    assert decide(ended("gone", 60), 1, 0.5).kind == "dead"
