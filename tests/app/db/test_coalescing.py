"""Small calls share a batch when they come close together, and only then."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import psycopg2
import pytest

from app.db.coalescing import ALONE, FULL, Coalescer, Future, Pressure
from app.db.errors import OutcomeUnknown, PoolExhausted, StatementTimeout
from tests.support.concurrency import wait_until

LONG = 60.0  # seconds for which a batch gathers: no test waits so long
FILLERS = ["filler"] * (FULL // ALONE)


class RefusedByTheDatabase(psycopg2.Error):
    """What psycopg2 raises for a statement that the database refused: with a SQLSTATE."""

    pgcode = "22003"


class Recorder:
    """A call that records what each batch was given; it waits until `gate` is set."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        self.batches.append(list(items))
        assert self.gate.wait(15)
        if "refused" in items:
            raise RefusedByTheDatabase("refused")
        if "lost" in items:
            raise ValueError("the answer came, and could not be read")
        if "timeout" in items:
            raise StatementTimeout("slow")
        return [f"done {item}" for item in items]


def run(coalescer: Coalescer, call: Recorder, item: Any, **options: Any) -> Any:
    return coalescer.submit(call, item, **options).result()


def run_all(coalescer: Coalescer, call: Recorder, items: Sequence[Any]) -> list[Future[Any]]:
    """Submit the first item in a thread of its own, to open a batch; fill the batch with the others."""
    with ThreadPoolExecutor(1) as thread:
        leader = thread.submit(coalescer.submit, call, items[0])
        wait_until(lambda: waiting_in(coalescer) == 1, "it has opened a batch")
        others = [coalescer.submit(call, item) for item in items[1:]]
        for _ in range(FULL // ALONE):
            coalescer.submit(call, "filler", weight=ALONE)
        return [leader.result(15), *others]


def exception_of(future: Future[Any]) -> BaseException:
    with pytest.raises(Exception) as caught:
        future.result()
    return caught.value


def waiting_in(coalescer: Coalescer) -> int:
    return sum(len(one.items) for one in coalescer._open.values())


class Fixed(Pressure):
    """Calls are held up for so long, whatever they take."""

    def __init__(self, held_up: float) -> None:
        super().__init__()
        self.held_up = held_up

    def record(self, size: int, seconds: float) -> None:
        pass


@contextlib.contextmanager
def busy(held_up: float = LONG, longest_seconds: float = LONG) -> Iterator[Coalescer]:
    """Yield a coalescer with a call of another kind under way, and so much pressure."""
    coalescer, other = Coalescer(20, longest_seconds, lambda: Fixed(held_up)), Recorder()
    other.gate.clear()
    with ThreadPoolExecutor(1) as thread:
        inside = thread.submit(run, coalescer, other, "other")
        wait_until(lambda: other.batches, "it is under way")
        yield coalescer
        other.gate.set()
    assert inside.result() == "done other"


def test_a_caller_who_is_the_only_one_goes_at_once_and_alone() -> None:
    """Whatever the pressure."""
    call = Recorder()
    coalescer = Coalescer(1, LONG, lambda: Fixed(LONG))
    assert [run(coalescer, call, item) for item in "ab"] == ["done a", "done b"]
    assert call.batches == [["a"], ["b"]]


def test_without_pressure_a_call_goes_at_once_when_none_of_its_kind_is_under_way() -> None:
    call = Recorder()
    with busy(held_up=0.0) as coalescer:
        assert [run(coalescer, call, item) for item in "ab"] == ["done a", "done b"]
    assert call.batches == [["a"], ["b"]]


def test_calls_gather_while_a_batch_of_their_kind_is_under_way_and_go_when_it_ends() -> None:
    call = Recorder()
    call.gate.clear()
    coalescer = Coalescer(20, LONG)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(run, coalescer, call, "first")
        wait_until(lambda: call.batches, "it is under way")
        leader = threads.submit(run, coalescer, call, "a")
        wait_until(lambda: waiting_in(coalescer) == 1, "it has opened a batch")
        others = [coalescer.submit(call, item) for item in "bc"]
        assert call.batches == [["first"]]
        call.gate.set()
        assert [first.result(15), leader.result(15)] == ["done first", "done a"]
        assert [one.result() for one in others] == ["done b", "done c"]
    assert call.batches == [["first"], ["a", "b", "c"]]


def test_under_pressure_a_call_waits_for_company() -> None:
    call = Recorder()
    with busy(held_up=LONG) as coalescer, ThreadPoolExecutor(1) as thread:
        leader = thread.submit(run, coalescer, call, "a")
        wait_until(lambda: waiting_in(coalescer) == 1, "it has opened a batch")
        for filler in FILLERS:
            coalescer.submit(call, filler, weight=ALONE)
        assert leader.result(15) == "done a"
    assert call.batches == [["a", *FILLERS]]


def test_calls_that_come_close_together_share_a_batch_and_each_gets_its_own_result() -> None:
    call = Recorder()
    with busy() as coalescer:
        found = run_all(coalescer, call, ["a", "b", "c"])
    assert [one.result() for one in found] == ["done a", "done b", "done c"]
    assert call.batches == [["a", "b", "c", *FILLERS]]


def test_who_had_company_expects_it_again_until_nobody_comes() -> None:
    call = Recorder()
    with busy() as coalescer:
        run_all(coalescer, call, ["a"])
    assert coalescer._kinds[call].had_company
    coalescer._longest_seconds = 0.01
    assert run(coalescer, call, "b") == "done b"
    assert not coalescer._kinds[call].had_company


def test_a_batch_runs_when_it_has_gathered_long_enough_however_many_come() -> None:
    call = Recorder()
    with busy(longest_seconds=0.01) as coalescer, ThreadPoolExecutor(2) as threads:
        found = [threads.submit(run, coalescer, call, item) for item in "ab"]
        assert [one.result(15) for one in found] == ["done a", "done b"]


def test_a_batch_that_is_held_up_holds_up_nobody_else() -> None:
    call = Recorder()
    call.gate.clear()
    with busy(longest_seconds=0.01) as coalescer, ThreadPoolExecutor(2) as threads:
        held = threads.submit(run, coalescer, call, "a")
        wait_until(lambda: call.batches, "the first batch runs")
        other = threads.submit(run, coalescer, call, "b")
        wait_until(lambda: len(call.batches) == 2, "the second one too")
        call.gate.set()
        assert (held.result(15), other.result(15)) == ("done a", "done b")


def test_different_keys_and_different_calls_never_share() -> None:
    call, other = Recorder(), Recorder()
    with busy(held_up=0.05) as coalescer, ThreadPoolExecutor(3) as threads:
        made = [
            threads.submit(run, coalescer, call, "a", key=1),
            threads.submit(run, coalescer, call, "b", key=2),
            threads.submit(run, coalescer, other, "c", key=1),
        ]
        assert [one.result(15) for one in made] == ["done a", "done b", "done c"]
    assert sorted(call.batches) == [["a"], ["b"]]
    assert other.batches == [["c"]]


def test_only_the_caller_who_opens_a_batch_waits_and_runs_the_callbacks_of_all() -> None:
    call, ran_in = Recorder(), []
    with busy() as coalescer, ThreadPoolExecutor(1) as thread:
        leader = thread.submit(lambda: (coalescer.submit(call, "a"), threading.get_ident())[1])
        wait_until(lambda: waiting_in(coalescer) == 1, "it has opened a batch")
        follower = coalescer.submit(call, "b")
        follower.when_done(lambda: ran_in.append(threading.get_ident()))
        assert ran_in == []
        for filler in FILLERS:
            coalescer.submit(call, filler, weight=ALONE)
        assert ran_in == [leader.result(15)]
    assert follower.result() == "done b"


def test_a_callback_that_fails_costs_the_others_nothing() -> None:
    call = Recorder()
    with busy(held_up=0.2) as coalescer, ThreadPoolExecutor(1) as thread:
        leader = thread.submit(run, coalescer, call, "a")
        wait_until(lambda: waiting_in(coalescer) == 1, "it has opened a batch")
        broken, sound = coalescer.submit(call, "b"), coalescer.submit(call, "c")
        broken.when_done(lambda: cast(None, 1 // 0))
        assert (leader.result(15), sound.result()) == ("done a", "done c")


def test_claims_that_share_a_batch_take_fewer_than_300_sub_tasks() -> None:
    """rvq.claim_sub_tasks has no bound of its own on the payloads of claims that share a call."""
    call = Recorder()
    with busy() as coalescer, ThreadPoolExecutor(1) as thread:
        leader = thread.submit(coalescer.submit, call, "a", weight=ALONE - 1)
        wait_until(lambda: waiting_in(coalescer) == 1, "it has opened a batch")
        coalescer.submit(call, "b", weight=FULL - ALONE)
        coalescer.submit(call, "c", weight=ALONE)
        assert leader.result(15).result() == "done a"
    assert call.batches == [["a", "b", "c"]]
    assert (FULL - 1) + ALONE < 300


def test_a_large_call_goes_alone() -> None:
    call = Recorder()
    with busy() as coalescer:
        assert run(coalescer, call, "large", weight=ALONE + 1) == "done large"
    assert call.batches == [["large"]]


def test_a_mistake_in_one_call_costs_the_others_nothing() -> None:
    call = Recorder()
    with busy() as coalescer:
        found = run_all(coalescer, call, ["a", "refused", "c"])
    assert [found[0].result(), found[2].result()] == ["done a", "done c"]
    with pytest.raises(RefusedByTheDatabase, match="refused"):
        found[1].result()
    assert call.batches[1:] == [["a"], ["refused"], ["c"], *([one] for one in FILLERS)]


def test_a_database_error_is_raised_for_all_of_a_batch_and_nothing_is_tried_again() -> None:
    call = Recorder()
    with busy() as coalescer:
        found = run_all(coalescer, call, ["a", "timeout"])
    errors = [exception_of(one) for one in found]
    assert [type(error) for error in errors] == [StatementTimeout] * 2
    assert errors[0] is not errors[1]
    assert len(call.batches) == 1


@pytest.mark.parametrize("others", [[], ["a", "b"]])
def test_an_error_without_a_sqlstate_is_raised_for_all_and_nothing_is_tried_again(others: list[str]) -> None:
    """It may have come after the commit: what was stored would be stored twice."""
    call = Recorder()
    with busy() as coalescer:
        found = run_all(coalescer, call, ["lost", *others])
    errors = [exception_of(one) for one in found]
    assert [type(error) for error in errors] == [OutcomeUnknown] * len(found)
    assert len({id(error) for error in errors}) == len(found)
    assert call.batches == [["lost", *others, *FILLERS]]


def test_more_callers_than_allowed_are_refused_at_once() -> None:
    call = Recorder()
    with busy() as coalescer:
        coalescer._max_callers = 1
        with pytest.raises(PoolExhausted):
            coalescer.submit(call, "a")
    assert run(coalescer, call, "b") == "done b"


def test_what_a_batch_carried_is_free_at_once_without_the_collector() -> None:
    call = Recorder()
    gc.disable()
    try:
        with busy() as coalescer:
            found = run_all(coalescer, call, [Payload(), Payload()])
        carried = [weakref.ref(item) for item in call.batches[0][:2]]
        call.batches.clear()
        del found
        assert [one() for one in carried] == [None, None]
    finally:
        gc.enable()


class Payload:
    """An item to which a weak reference can be held."""
