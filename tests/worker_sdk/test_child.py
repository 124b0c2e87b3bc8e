"""Handlers in processes of their own: crashes, cancellation, time limits."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.worker_sdk import handlers
from worker_sdk._leases import Lease, Reason
from worker_sdk._outcome import Outcome
from worker_sdk._process import child as child_module
from worker_sdk._process.child import Child, SetupFailed
from worker_sdk._sub_task import Claimed


def lease_of(payload: Any, attempt: int = 1) -> Lease:
    claimed = Claimed("sub_1", "task_1", 0, "default", attempt, 5, json.dumps(payload).encode(), "token")
    return Lease(claimed, 0.0, float("inf"))


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    monkeypatch.setattr(child_module, "STUBBORN_SECONDS", 0.2)
    child = Child(handlers.Process)
    yield child
    child.kill()


def test_a_handler_runs_in_another_process_that_is_kept(child: Child) -> None:
    pids = {child.perform(lease_of("pid")) for _ in range(3)}
    assert len(pids) == 1
    assert pids != {Outcome(True, str(os.getpid()).encode())}


@pytest.mark.parametrize(("payload", "how"), [("die", "signal SIGKILL"), ("exit", "exit status 7")])
def test_a_process_that_dies_costs_one_attempt_and_is_replaced(child: Child, payload: str, how: str) -> None:
    outcome = child.perform(lease_of(payload))
    assert outcome is not None
    error = json.loads(outcome.document)
    assert (error["code"], error["retryable"]) == ("process_died", True)
    assert how in error["message"]
    assert child.perform(lease_of("still there")) == Outcome(True, b'"still there"')


def test_a_handler_in_a_process_sees_that_it_is_cancelled(child: Child) -> None:
    lease = lease_of("obey")
    lease.cancel(Reason.CANCELLED)
    pid = child.perform(lease_of("pid"))
    assert child.perform(lease) is None
    assert child.perform(lease_of("pid")) == pid


def test_a_handler_that_does_not_stop_when_told_is_killed(child: Child) -> None:
    lease = lease_of("deaf")
    lease.cancel(Reason.CANCELLED)
    assert child.perform(lease) is None
    assert child.perform(lease_of(1)) == Outcome(True, b"1")


def test_a_cancellation_does_not_reach_the_next_sub_task(child: Child) -> None:
    for _ in range(20):
        lease = lease_of("obey")
        lease.cancel(Reason.CANCELLED)
        assert child.perform(lease) is None
        assert child.perform(lease_of("next")) == Outcome(True, b'"next"')


def test_programs_of_a_handler_have_their_ordinary_signals(child: Child) -> None:
    assert child.perform(lease_of("signals of a program")) == Outcome(True, b"-15")


def test_a_setup_that_fails_is_told_with_its_reason() -> None:
    child = Child(handlers.NoSetup)
    child.spawn()
    with pytest.raises(SetupFailed, match="the model is missing"):
        child.wait_until_ready()
    child.kill()
