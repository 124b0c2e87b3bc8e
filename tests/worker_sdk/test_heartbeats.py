"""Heartbeat and watch, step by step, on a clock that the test moves."""

import pytest

from tests.worker_sdk.loops import Loops
from worker_sdk import Answer
from worker_sdk._leases import Reason, State
from worker_sdk._outcome import Outcome

BUSY = Answer(503, b"{}", "60")


def test_every_lease_is_extended_before_a_third_of_it_has_passed(loops: Loops) -> None:
    loops.submit(3)
    loops.claimer.step()
    loops.leases.take(wait=False)
    for _ in range(20):
        wait = loops.heartbeat.step()
        assert wait <= loops.options.lease_seconds / 3
        loops.clock.now += wait
    assert loops.clock.now > 1000 + 3 * loops.options.lease_seconds
    loops.rvq.post("/v1/sub_tasks/claim", b'{"worker_id": "another"}')
    assert {one.worker_id for one in loops.rvq.sub_tasks()} == {"worker-1"}


def test_a_failed_beat_is_repeated_in_time_for_two_more(loops: Loops) -> None:
    loops.submit(1)
    loops.claimer.step()
    loops.line.cut = True
    loops.clock.now += loops.heartbeat.step()
    for _ in range(10):
        assert loops.heartbeat.step() <= loops.options.lease_seconds / 9
        loops.clock.now += loops.options.lease_seconds / 9


@pytest.mark.parametrize(
    "answer", [BUSY, Answer(429, b"{}", "86400"), Answer(401, b"{}"), Answer(200, b"<html>")]
)
def test_no_refused_heartbeat_waits_past_what_is_left_of_the_lease(answer: Answer) -> None:
    loops = Loops(lease_seconds=6)
    loops.submit(1)
    loops.claimer.step()
    loops.leases.take(wait=False)
    (lease,) = loops.leases.all()
    loops.line.judge = lambda _: answer
    sent_at = []
    while loops.clock.now < lease.expires:
        calls = len(loops.line.bodies)
        wait = loops.heartbeat.step()
        sent_at += [loops.clock.now] * (len(loops.line.bodies) - calls)
        loops.clock.now += wait
    assert len(sent_at) >= 3
    assert lease.expires - sent_at[-1] <= 2 * loops.options.lease_seconds / 9
    loops.line.judge = lambda _: None
    assert loops.heartbeat.step() <= loops.options.lease_seconds / 3


def test_a_handler_is_told_when_its_lease_may_be_gone_and_its_result_still_counts_if_it_was_not() -> None:
    loops = Loops(lease_seconds=6)
    loops.submit(1)
    loops.claimer.step()
    running = loops.leases.take(wait=False)
    assert running is not None
    loops.line.judge = lambda _: BUSY
    while not running.cancelled.is_set():
        assert loops.clock.now < running.expires
        loops.heartbeat.step()
        loops.clock.now += loops.watch.step()
        loops.watch.step()
    assert loops.clock.now >= running.expires
    assert running.reason is Reason.EXPIRED
    loops.line.judge = lambda _: None
    loops.completer.put(running, Outcome(True, b"7"))
    loops.completer.step()
    assert loops.statuses() == ["succeeded"]


def test_a_lease_that_may_be_gone_is_still_extended_and_what_rvq_says_counts_more() -> None:
    loops = Loops(lease_seconds=6)
    (sub_task_id,) = loops.submit(1)
    loops.claimer.step()
    running = loops.leases.take(wait=False)
    assert running is not None
    loops.clock.now += 5.9
    loops.line.cut = True
    loops.heartbeat.step()
    loops.clock.now += 0.1
    loops.watch.step()
    assert running.cancelled.is_set()
    loops.line.cut = False
    loops.rvq.cancel(sub_task_id)
    loops.clock.now += 1.0
    loops.heartbeat.step()
    assert running.reason is Reason.CANCELLED


def test_two_workers_with_one_id_have_only_their_own_leases(loops: Loops) -> None:
    """A copy of a machine may have the same id; the tokens tell."""
    twin = Loops()
    twin.client._transport = loops.line
    twin.clock = loops.clock
    loops.submit(1)
    loops.claimer.step()
    first = loops.leases.take(wait=False)
    assert first is not None
    loops.clock.now += loops.options.lease_seconds
    twin.claimer._not_before = 0.0
    twin.claimer.step()
    (second,) = twin.leases.all()
    loops.heartbeat.step()
    assert first.reason is Reason.STALE
    loops.completer.put(first, Outcome(True, b'"first"'))
    loops.completer.step()
    twin.completer.put(second, Outcome(True, b'"second"'))
    twin.completer.step()
    assert loops.rvq.sub_tasks()[0].result == "second"


def test_a_step_of_the_wall_clock_moves_no_lease(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    loops.submit(1)
    loops.claimer.step()
    running = loops.leases.take(wait=False)
    assert running is not None
    for step in (86400.0, -86400.0):
        monkeypatch.setattr("time.time", lambda step=step: 1e9 + step)
        loops.clock.now += loops.heartbeat.step()
        loops.heartbeat.step()
        loops.watch.step()
    assert running.reason is None
    assert running.expires == loops.clock.now + loops.options.lease_seconds


def test_an_answer_that_comes_twice_starts_nothing_twice(loops: Loops) -> None:
    loops.submit(1)
    loops.claimer.step()
    (lease,) = loops.leases.all()
    loops.leases.add([lease])
    assert loops.leases.take(wait=False) is lease
    assert loops.leases.take(wait=False) is None


def test_cancelled_work_that_runs_is_told_and_what_waits_is_dropped(loops: Loops) -> None:
    ids = loops.submit(2)
    loops.claimer.step()
    running = loops.leases.take(wait=False)
    assert running is not None
    for sub_task_id in ids:
        loops.rvq.cancel(sub_task_id)
    loops.clock.now += loops.heartbeat.step()
    loops.heartbeat.step()
    assert running.cancelled.is_set()
    assert running.reason is Reason.CANCELLED
    assert loops.leases.take(wait=False) is None


def test_a_lease_taken_over_by_another_worker_is_told_to_stop_and_not_extended_again(loops: Loops) -> None:
    loops.submit(1)
    loops.claimer.step()
    running = loops.leases.take(wait=False)
    assert running is not None
    loops.clock.now += loops.options.lease_seconds + 1
    loops.rvq.post("/v1/sub_tasks/claim", b'{"worker_id": "another"}')
    loops.heartbeat.step()
    assert running.reason is Reason.STALE
    assert_beats_no_more(loops)


def test_a_result_on_its_way_is_not_given_up_because_a_heartbeat_came_second(loops: Loops) -> None:
    loops.submit(1)
    loops.claimer.step()
    loops.run_ready()
    loops.line.answers = [Answer(200, b'{"results": [{"outcome": "stale"}]}')]
    loops.clock.now += loops.heartbeat.step()
    loops.heartbeat.step()
    (lease,) = loops.leases.all()
    assert lease.state is State.REPORTING
    loops.completer.step()
    assert loops.statuses() == ["succeeded"]


def test_what_ran_out_while_it_waited_is_not_started(loops: Loops) -> None:
    loops.submit(1)
    loops.claimer.step()
    loops.clock.now += loops.options.lease_seconds
    assert loops.leases.take(wait=False) is None
    assert loops.leases.all() == []


def test_a_handler_out_of_time_is_told_and_its_lease_left_to_run_out() -> None:
    loops = Loops(timeout_seconds=2.0)
    loops.submit(1)
    loops.claimer.step()
    assert loops.watch.step() == 2.0
    running = loops.leases.take(wait=False)
    assert running is not None
    loops.clock.now += 2.0
    loops.watch.step()
    assert running.reason is Reason.TIMEOUT
    assert_beats_no_more(loops)


def assert_beats_no_more(loops: Loops) -> None:
    calls = len(loops.line.bodies)
    loops.clock.now += loops.options.lease_seconds
    loops.heartbeat.step()
    assert len(loops.line.bodies) == calls
