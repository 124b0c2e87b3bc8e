"""Small calls share a round when they come close together, and only then."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from app.db_errors import PoolExhausted, StatementTimeout
from app.merging import ALONE, FULL, Merger
from tests.support.concurrency import wait_until

LONG = 60.0  # seconds that a round gathers: no test waits for it
FILLERS = ["filler"] * (FULL // ALONE)


class Recorder:
    """A call that notes what each round was given; `gate` holds it until it is set."""

    def __init__(self) -> None:
        self.rounds: list[list[Any]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        self.rounds.append(list(items))
        assert self.gate.wait(15)
        if "refused" in items:
            raise ValueError("refused")
        if "timeout" in items:
            raise StatementTimeout("slow")
        return [f"done {item}" for item in items]


def run_all(merger: Merger, call: Recorder, items: Sequence[Any]) -> list[Future[Any]]:
    """Each in a thread of its own, one after the other, then so many that the round is full and departs."""
    begun: list[Future[Any]] = []
    with ThreadPoolExecutor(len(items) + 2) as threads:
        for item in items:
            begun.append(threads.submit(merger.run, call, item))
            wait_until(lambda: waiting_in(merger) == len(begun), "it has joined")
        for _ in range(FULL // ALONE):
            threads.submit(merger.run, call, "filler", weight=ALONE)
    return begun


def waiting_in(merger: Merger) -> int:
    return sum(len(one.items) for one in merger._open.values())


@contextlib.contextmanager
def busy(gap_seconds: float = LONG) -> Iterator[Merger]:
    """A merger with somebody inside, so that whoever comes next waits for company."""
    merger, other = Merger(20, gap_seconds, LONG), Recorder()
    other.gate.clear()
    with ThreadPoolExecutor(1) as thread:
        inside = thread.submit(merger.run, other, "other")
        wait_until(lambda: other.rounds, "it is under way")
        yield merger
        other.gate.set()
    assert inside.result() == "done other"


def test_a_caller_who_is_the_only_one_goes_at_once_and_alone() -> None:
    call = Recorder()
    merger = Merger(1, LONG, LONG)
    assert [merger.run(call, item) for item in "ab"] == ["done a", "done b"]
    assert call.rounds == [["a"], ["b"]]


def test_calls_that_come_close_together_share_a_round_and_each_gets_its_own_result() -> None:
    call = Recorder()
    with busy() as merger:
        found = run_all(merger, call, ["a", "b", "c"])
    assert [one.result() for one in found] == ["done a", "done b", "done c"]
    assert call.rounds == [["a", "b", "c", *FILLERS]]


def test_who_had_company_expects_it_again_until_nobody_comes() -> None:
    call = Recorder()
    with busy() as merger:
        run_all(merger, call, ["a"])
    assert call in merger._had_company
    merger._gap_seconds = 0.01
    assert merger.run(call, "b") == "done b"
    assert call not in merger._had_company


def test_a_round_departs_without_company_when_nobody_comes() -> None:
    call = Recorder()
    with busy(gap_seconds=0.01) as merger:
        assert [merger.run(call, item) for item in "ab"] == ["done a", "done b"]
    assert call.rounds == [["a"], ["b"]]


def test_a_round_departs_when_it_has_gathered_long_enough_however_many_come() -> None:
    call = Recorder()
    with busy() as merger, ThreadPoolExecutor(2) as threads:
        merger._longest_seconds = 0.01
        found = [threads.submit(merger.run, call, item) for item in "ab"]
        assert [one.result(15) for one in found] == ["done a", "done b"]


def test_a_round_that_is_held_up_holds_up_nobody_else() -> None:
    call = Recorder()
    call.gate.clear()
    with busy(gap_seconds=0.0) as merger, ThreadPoolExecutor(2) as threads:
        held = threads.submit(merger.run, call, "a")
        wait_until(lambda: call.rounds, "the first round has departed")
        other = threads.submit(merger.run, call, "b")
        wait_until(lambda: len(call.rounds) == 2, "the second one too")
        call.gate.set()
        assert (held.result(15), other.result(15)) == ("done a", "done b")


def test_different_keys_and_different_calls_never_share() -> None:
    call, other = Recorder(), Recorder()
    with busy(gap_seconds=0.05) as merger, ThreadPoolExecutor(3) as threads:
        made = [
            threads.submit(merger.run, call, "a", key=1),
            threads.submit(merger.run, call, "b", key=2),
            threads.submit(merger.run, other, "c", key=1),
        ]
        assert [one.result(15) for one in made] == ["done a", "done b", "done c"]
    assert sorted(call.rounds) == [["a"], ["b"]]
    assert other.rounds == [["c"]]


def test_a_large_call_goes_alone() -> None:
    call = Recorder()
    with busy() as merger:
        assert merger.run(call, "large", weight=ALONE + 1) == "done large"
    assert call.rounds == [["large"]]


def test_a_mistake_in_one_call_costs_the_others_nothing() -> None:
    call = Recorder()
    with busy() as merger:
        found = run_all(merger, call, ["a", "refused", "c"])
    assert [found[0].result(), found[2].result()] == ["done a", "done c"]
    with pytest.raises(ValueError, match="refused"):
        found[1].result()
    assert call.rounds[1:] == [["a"], ["refused"], ["c"], *([one] for one in FILLERS)]


def test_what_befalls_the_database_befalls_all_of_a_round_and_nothing_is_tried_again() -> None:
    call = Recorder()
    with busy() as merger:
        found = run_all(merger, call, ["a", "timeout"])
    errors = [one.exception() for one in found]
    assert [type(error) for error in errors] == [StatementTimeout] * 2
    assert errors[0] is not errors[1]
    assert len(call.rounds) == 1


def test_beyond_the_callers_there_is_room_for_it_sheds_at_once() -> None:
    call = Recorder()
    with busy() as merger:
        merger._most_callers = 1
        with pytest.raises(PoolExhausted):
            merger.run(call, "a")
    assert merger.run(call, "b") == "done b"
