"""The schedule, with a clock of the test's own: due times, latency from them, what is shed."""

from __future__ import annotations

import time

import pytest

from bench.gate.measured import stream_figures
from bench.gate.stream import Stream
from bench.gate.users import sleep_until


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def stream_of(clock: Clock, *, rate: float = 10, in_flight: int = 100, end: float = 1.0) -> Stream:
    return Stream("create", rate, in_flight, start=0.0, end=end, clock=clock)


def take_all(stream: Stream) -> list[float]:
    taken = []
    while (due := stream.take()) is not None:
        taken.append(due)
    return taken


def test_ticks_are_due_at_the_rate_until_the_end(clock: Clock) -> None:
    assert take_all(stream_of(clock, rate=4)) == [0, 0.25, 0.5, 0.75]


def test_a_tick_taken_late_keeps_its_due_time_and_its_latency_counts_from_it(clock: Clock) -> None:
    stream = stream_of(clock)
    clock.now = 0.35
    due = stream.take()
    assert due == 0.0
    sent = stream.begin(due, waited=False)
    stream.succeeded(due, sent, answered=0.36)
    figures = stream_figures(stream, (0.0, 1.0))
    assert figures.ms["p100"] == pytest.approx(360)
    assert figures.service_ms["p100"] == pytest.approx(10)
    assert list(stream.late) == []


def test_the_oldest_ticks_are_shed_when_too_many_are_due_and_not_answered(clock: Clock) -> None:
    stream = stream_of(clock, in_flight=3)
    clock.now = 0.95
    assert stream.take() == pytest.approx(0.7)
    assert stream.shed == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def test_a_tick_is_shed_when_it_comes_due_and_too_many_run(clock: Clock) -> None:
    stream = stream_of(clock, in_flight=1)
    first, second = stream.take(), stream.take()
    assert first is not None
    assert second is not None
    assert not stream.sheds(first)
    sent = stream.begin(first, waited=True)
    assert stream.sheds(second)
    stream.succeeded(first, sent, answered=0.2)
    third = stream.take()
    assert third is not None
    assert not stream.sheds(third)
    assert stream.shed == [second]


def test_ticks_that_nobody_took_are_shed_at_the_end(clock: Clock) -> None:
    stream = stream_of(clock)
    stream.take()
    clock.now = 5.0
    stream.close()
    assert stream.shed == pytest.approx([0.1 * n for n in range(1, 10)])


def test_a_stopped_stream_has_no_more_ticks(clock: Clock) -> None:
    stream = stream_of(clock, end=float("inf"))
    clock.now = 0.25
    stream.stop()
    assert take_all(stream) == pytest.approx([0, 0.1, 0.2])


def test_503_counts_as_shed_and_other_answers_as_errors(clock: Clock) -> None:
    stream = stream_of(clock)
    for why in (
        "503 over budget",
        '500 {"code":"internal","request_id":"a"}',
        '500 {"code":"internal","request_id":"b"}',
    ):
        due = stream.take()
        assert due is not None
        stream.begin(due, waited=True)
        stream.failed(due, why)
    figures = stream_figures(stream, (0.0, 1.0))
    assert (figures.shed, figures.errors, figures.kinds_of_errors) == (1, 2, {"500 internal": 2})


def test_only_the_window_counts(clock: Clock) -> None:
    """What was due in the warm-up is forgotten; what was due in the window counts, answered whenever."""
    stream = stream_of(clock, rate=2, end=4.0)
    for answered in (0.1, 0.6, 1.2, 1.7, 2.4, 9.0):
        due = stream.take()
        assert due is not None
        clock.now = due
        stream.succeeded(due, stream.begin(due, waited=True), answered)
    figures = stream_figures(stream, (1.0, 3.0))
    assert (figures.due, figures.answered) == (4, 4)
    assert figures.ms["p100"] == pytest.approx(6500)
    assert figures.reached == pytest.approx(3 / 2)


def test_nothing_is_sent_before_it_is_due_even_when_the_timer_ends_early() -> None:
    moment = time.perf_counter() + 0.2
    early = iter([0.0])

    def timer(seconds: float) -> None:
        time.sleep(next(early, seconds))

    assert sleep_until(moment, timer)
    assert time.perf_counter() >= moment
    assert not sleep_until(moment, timer)
