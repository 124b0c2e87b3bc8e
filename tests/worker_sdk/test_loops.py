"""Claimer and completer, step by step, on a clock that the test moves."""

import json

import pytest

from tests.worker_sdk.loops import Loops
from worker_sdk import Answer
from worker_sdk._completer import CRASHES_TO_REFUSE, MAX_BACKLOG
from worker_sdk._outcome import Outcome

UNAVAILABLE = Answer(503, b"{}", "7")
CRASHED = Answer(500, b"{}")


# Claiming


def test_no_more_is_claimed_than_can_start_before_speed_is_known(loops: Loops) -> None:
    loops.submit(50)
    loops.claimer.step()
    assert loops.leases.counts().ready == loops.options.concurrency


def test_fast_handlers_let_more_wait_here_and_slow_ones_none(loops: Loops) -> None:
    loops.submit(500)
    loops.prefetch.ended(0.01)
    loops.claimer.step()
    assert loops.leases.counts().ready == loops.options.concurrency + loops.options.prefetch
    for _ in range(50):
        loops.prefetch.ended(30.0)
    assert loops.prefetch.allowed(0.0) == 0


def test_work_that_has_just_become_slow_is_noticed_before_any_of_it_ends(loops: Loops) -> None:
    loops.prefetch.ended(0.01)
    assert loops.prefetch.allowed(0.0) == 100
    assert loops.prefetch.allowed(60.0) == 0


def test_what_waits_too_long_is_given_back_uncharged(loops: Loops) -> None:
    loops.submit(20)
    loops.prefetch.ended(0.1)
    loops.claimer.step()
    for _ in range(loops.options.concurrency):
        loops.leases.take(wait=False)
    loops.clock.now += 5.0
    loops.claimer.step()
    assert loops.leases.counts().ready == 0
    assert loops.statuses().count("claimed") == loops.options.concurrency
    assert {one.attempt for one in loops.rvq.sub_tasks() if one.status == "queued"} == {0}


def test_a_full_answer_is_followed_at_once_and_an_empty_queue_less_and_less_often(loops: Loops) -> None:
    loops.submit(loops.options.concurrency)
    assert loops.claimer.step() == 0.0
    loops.run_ready()
    loops.completer.step()
    waits = []
    for _ in range(12):
        waits.append(loops.claimer.step())
        loops.clock.now += waits[-1]
    shortest, longest = loops.options.poll_seconds
    assert shortest / 2 <= waits[0] <= shortest
    assert all(longest / 2 <= wait <= longest for wait in waits[-3:])


def test_a_slot_that_comes_free_does_not_hurry_the_polling_of_an_empty_queue(loops: Loops) -> None:
    loops.claimer.step()
    calls = len(loops.line.bodies)
    assert loops.claimer.step() > 0
    assert len(loops.line.bodies) == calls


def test_nothing_is_claimed_while_results_cannot_be_delivered(loops: Loops) -> None:
    loops.submit(20)
    loops.claimer.step()
    loops.run_ready()
    loops.line.cut = True
    loops.completer.step()
    loops.line.cut = False
    calls = len(loops.line.bodies)
    loops.claimer.step()
    assert len(loops.line.bodies) == calls
    loops.clock.now += 60
    loops.completer.step()
    loops.claimer.step()
    assert loops.leases.counts().ready == loops.options.concurrency


def test_nothing_is_claimed_while_too_many_results_wait(loops: Loops) -> None:
    loops.submit(MAX_BACKLOG + 500)
    loops.prefetch.ended(0.0001)
    while loops.claimer.step() == 0.0:
        loops.run_ready()
    assert MAX_BACKLOG <= loops.completer.backlog <= MAX_BACKLOG + 104


def test_retry_after_is_honoured(loops: Loops) -> None:
    loops.line.answers = [UNAVAILABLE]
    assert 7.0 <= loops.claimer.step() <= 7.2


def test_a_token_refused_from_the_start_is_fatal(loops: Loops) -> None:
    loops.line.answers = [Answer(401, b'{"code": "unauthorized"}')]
    loops.claimer.step()
    assert loops.fatal == ["claim answered 401: unauthorized: None"]


def test_a_token_refused_later_is_waited_out(loops: Loops) -> None:
    loops.claimer.step()
    loops.clock.now += 5
    loops.line.answers = [Answer(401, b"{}")]
    assert loops.claimer.step() > 0
    assert loops.fatal == []


def test_one_empty_claim_is_no_empty_queue() -> None:
    """A claim passes over what is locked at that moment. A while of empty claims ends `--until-empty`."""
    ended: list[float] = []
    loops = Loops()
    loops.claimer._on_empty = lambda: ended.append(loops.clock.now)
    loops.claimer._empty_seconds = lambda: 2.0
    began = loops.clock.now
    while not ended:
        wait = loops.claimer.step()
        assert wait <= 0.5
        loops.clock.now += wait
        if began + 1.0 < loops.clock.now < began + 1.5 and not loops.rvq.sub_tasks():
            (sub_task_id,) = loops.submit(1)
            taken_at = loops.clock.now
        if loops.run_ready():
            loops.completer.step()
    assert loops.rvq.sub_task(sub_task_id).status == "succeeded"
    assert ended[0] >= taken_at + 2.0


# Completing


def test_results_are_delivered_in_one_batch(loops: Loops) -> None:
    loops.submit(4)
    loops.claimer.step()
    loops.run_ready(b'{"price": 1.10}')
    calls = len(loops.line.bodies)
    loops.completer.step()
    assert len(loops.line.bodies) == calls + 1
    assert {one.result_bytes for one in loops.rvq.sub_tasks()} == {b'{"price": 1.10}'}
    assert (loops.completer.backlog, loops.leases.all()) == (0, [])


def test_an_unanswered_batch_is_sent_again_byte_for_byte(loops: Loops) -> None:
    loops.submit(4)
    loops.claimer.step()
    loops.run_ready()
    loops.line.answers = [UNAVAILABLE, CRASHED, Answer(200, b"<html>"), Answer(200, b'{"results": []}')]
    sent = len(loops.line.bodies)
    for _ in range(5):
        loops.clock.now += loops.completer.step()
    bodies = loops.line.bodies[sent:]
    assert len(bodies) == 5
    assert len(set(bodies)) == 1
    assert loops.statuses() == ["succeeded"] * 4


def test_a_batch_stored_with_its_answer_lost_is_settled_by_the_second_try(loops: Loops) -> None:
    loops.submit(2)
    loops.claimer.step()
    loops.run_ready()
    post = loops.rvq.post
    loops.line.answers = [Answer(502, b"")]
    loops.completer.step()
    post("/v1/sub_tasks/complete", loops.line.bodies[-1])
    loops.clock.now += 60
    loops.completer.step()
    assert (loops.completer.backlog, loops.statuses()) == (0, ["succeeded"] * 2)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_refused_item_costs_the_others_nothing(loops: Loops, status: int) -> None:
    ids = loops.submit(9)
    loops.prefetch.ended(0.001)
    loops.claimer.step()
    while lease := loops.leases.take(wait=False):
        loops.completer.put(lease, Outcome(True, b'"poison"' if lease.id == ids[4] else b"1"))
    poison(loops, status)
    deliver(loops)
    assert [one.result for one in loops.rvq.sub_tasks()] == [1, 1, 1, 1, None, 1, 1, 1, 1]
    error = loops.rvq.sub_task(ids[4]).error
    assert error is not None
    assert (error["code"], error["retryable"]) == ("result_refused", False)
    assert str(status) in error["message"]


def test_an_item_that_breaks_the_server_is_found_and_given_up_for_another_attempt(loops: Loops) -> None:
    ids = loops.submit(5)
    loops.prefetch.ended(0.001)
    loops.claimer.step()
    while lease := loops.leases.take(wait=False):
        loops.completer.put(lease, Outcome(True, b'"poison"' if lease.id == ids[2] else b"1"))
    poison(loops, 500)
    deliver(loops)
    assert loops.statuses() == ["succeeded", "succeeded", "queued", "succeeded", "succeeded"]
    error = loops.rvq.sub_task(ids[2]).error
    assert error is not None
    assert error["retryable"] is True
    assert sum(b"poison" in body for body in loops.line.bodies) >= CRASHES_TO_REFUSE


def test_an_invalid_item_is_reported_as_failed_and_the_rest_is_stored(loops: Loops) -> None:
    ids = loops.submit(2)
    loops.claimer.step()
    loops.run_ready()
    loops.line.judge = lambda body: _one_invalid(loops, body, ids[0])
    deliver(loops)
    assert loops.statuses() == ["failed", "succeeded"]


def test_an_item_refused_even_as_a_failure_is_dropped_after_one_more_try(loops: Loops) -> None:
    loops.submit(1)
    loops.claimer.step()
    loops.run_ready()
    sent = len(loops.line.bodies)
    loops.line.judge = lambda _: Answer(422, b"{}")
    deliver(loops)
    assert len(loops.line.bodies) == sent + 2
    assert loops.leases.all() == []


def test_a_large_result_goes_alone_and_small_ones_share(loops: Loops) -> None:
    loops.submit(4)
    loops.claimer.step()
    for size in (3_000_000, 10, 10, 3_000_000):
        lease = loops.leases.take(wait=False)
        assert lease is not None
        loops.completer.put(lease, Outcome(True, b"1" * size))
    sent = len(loops.line.bodies)
    deliver(loops)
    assert [len(body) // 1_000_000 for body in loops.line.bodies[sent:]] == [3, 3]


def test_a_late_outcome_is_answered_stale_and_forgotten(loops: Loops) -> None:
    (sub_task_id,) = loops.submit(1)
    loops.claimer.step()
    loops.rvq.cancel(sub_task_id)
    loops.run_ready()
    loops.completer.step()
    assert (loops.completer.backlog, loops.leases.all()) == (0, [])
    assert loops.statuses() == ["cancelled"]


def deliver(loops: Loops) -> None:
    """Step until every outcome is settled."""
    for _ in range(200):
        if not loops.completer.backlog:
            return
        loops.clock.now += 20
        loops.completer.step()
    raise AssertionError("never delivered")


def poison(loops: Loops, status: int) -> None:
    """Respond so from now on to every request with the poison in it."""
    loops.line.judge = lambda body: Answer(status, b"{}") if b'"poison"' in body else None


def _one_invalid(loops: Loops, body: bytes, sub_task_id: str) -> Answer | None:
    """Return the API's response, with one of the succeeded results called invalid instead."""
    results = json.loads(body)["results"]
    named = [item["id"] == sub_task_id and item["status"] == "succeeded" for item in results]
    if not any(named):
        return None
    kept = [item for item, out in zip(results, named, strict=True) if not out]
    loops.rvq.post("/v1/sub_tasks/complete", json.dumps({"worker_id": "w", "results": kept}).encode())
    outcomes = [{"outcome": "invalid" if out else "succeeded"} for out in named]
    return Answer(200, json.dumps({"results": outcomes}).encode())
