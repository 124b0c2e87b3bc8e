"""Handlers that harm their process, in both executors: no wrong result, nothing twice, nothing left."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.concurrency import wait_until
from tests.worker_sdk.api import PATIENCE, ScriptedAPI
from tests.worker_sdk.conftest import Start
from tests.worker_sdk.processes import Process, is_gone
from worker_sdk.testing import FakeSubTask

ENDED = ("succeeded", "failed", "cancelled")
BOTH = pytest.mark.parametrize("executor", ["thread", "process"])

FORKS = [
    "a_fork_that_returns",
    "a_fork_that_exits",
    "a_fork_that_fails_to_exec",
    "a_fork_that_raises_keyboard_interrupt",
    "a_fork_by_a_thread",
    "a_process_of_multiprocessing_by_fork",
    "a_process_of_multiprocessing_by_spawn",
    "a_process_of_multiprocessing_by_forkserver",
    "a_process_that_is_terminated_at_once",
    "a_pool_of_processes",
]
CHANGES = [
    "stdout_closed",
    "stderr_closed",
    "standard_fds_closed",
    "chdir",
    "default_timeout",
    "environment",
    "another_locale",
    "collector",
    "low_recursion_limit",
    "signals",
    "an_alarm_that_is_left",
    "faulthandler_that_is_left",
]
# In threads these two end the worker, or what it prints to: see the tests below.
ENDS_THREADS = ("standard_fds_closed", "faulthandler_that_is_left")


class Bench:
    """Submits what handlers shall do, and runs one worker until all of it has ended."""

    def __init__(self, api: ScriptedAPI, start: Start) -> None:
        self.api = api
        self._start = start

    def submit(self, *hazards: str, max_attempts: int = 5) -> list[FakeSubTask]:
        ids = [
            self.api.rvq.submit([hazard, number], max_attempts=max_attempts)
            for number, hazard in enumerate(hazards)
        ]
        return [self.api.rvq.sub_task(one) for one in ids]

    def worker(self, executor: str, handler: str = "Hazards", **more: Any) -> Process:
        return self._start(handler, "--executor", executor, module="hazards", **more)

    def run(
        self, executor: str, *hazards: str, handler: str = "Hazards", max_attempts: int = 5
    ) -> list[FakeSubTask]:
        """Return how they ended. Asserts that the worker then stops in good order."""
        found = self.submit(*hazards, max_attempts=max_attempts)
        worker = self.worker(executor, handler)
        self.wait_ended()
        self.stop(worker)
        return found

    def wait_ended(self) -> None:
        self.api.wait_until(lambda: all(one.status in ENDED for one in self.api.rvq.sub_tasks()))

    def stop(self, worker: Process) -> None:
        worker.signal(signal.SIGTERM)
        assert worker.exit_status() == 0, worker.errors()
        self.said = [line.split() for line in worker.output().splitlines()]

    def begun(self) -> Counter[str]:
        return Counter(words[1] for words in self.said if words[0] == "began")

    def programs(self) -> list[int]:
        return [int(words[1]) for words in self.said if words[0] == "program"]


@pytest.fixture
def bench(api: ScriptedAPI, start: Start) -> Bench:
    return Bench(api, start)


@BOTH
@pytest.mark.parametrize("hazard", FORKS)
def test_a_fork_never_speaks_for_the_worker(bench: Bench, executor: str, hazard: str) -> None:
    found = bench.run(executor, hazard, "plain", hazard, "plain")
    assert [one.result for one in found] == [0, 1, 2, 3]
    assert {one.attempt for one in found} == {1}
    assert set(bench.begun().values()) == {1}


@BOTH
@pytest.mark.parametrize("hazard", CHANGES)
def test_what_a_handler_does_to_its_process_spoils_no_result(
    bench: Bench, executor: str, hazard: str
) -> None:
    if executor == "thread" and hazard in ENDS_THREADS:
        pytest.skip("in a thread this is the end of the worker, or of its log")
    found = bench.run(executor, hazard, "plain", hazard, "plain")
    assert [one.result for one in found] == [0, 1, 2, 3]
    assert {one.attempt for one in found} == {1}


@pytest.mark.parametrize("hazard", CHANGES)
def test_the_next_sub_task_of_a_process_finds_everything_as_it_was(bench: Bench, hazard: str) -> None:
    before, _, after = bench.run("process", "look", hazard, "look")
    assert after.result == before.result
    assert len({words[3] for words in bench.said}) == 1, "it is the same process"


@BOTH
def test_a_thread_that_a_handler_leaves_does_not_keep_the_worker(bench: Bench, executor: str) -> None:
    found = bench.run(executor, "a_thread_that_is_left", "plain")
    assert [one.result for one in found] == [0, 1]


def test_programs_that_a_handler_leaves_end_with_its_process(bench: Bench) -> None:
    found = bench.run("process", "a_program_that_is_left", "a_fork_that_lives_on", "plain")
    assert [one.result for one in found] == [0, 1, 2]
    assert len(bench.programs()) == 2
    assert all(is_gone(pid) for pid in bench.programs())


@pytest.mark.parametrize(
    ("hazard", "how"),
    [
        ("os_exit", "exit status 7"),
        ("memory_death", "signal SIGKILL"),
        ("a_real_time_signal", "signal 40"),
        ("an_alarm_that_comes", "signal SIGALRM"),
        ("a_daemon_and_then_death", "signal SIGKILL"),
        ("garbage_in_the_pipe", "bytes announced"),
        ("all_fds_closed", "exit status 1"),
        ("another_file_in_the_pipes_place", "exit status 1"),
    ],
)
def test_the_death_of_a_process_costs_one_attempt_of_one_sub_task(
    bench: Bench, hazard: str, how: str
) -> None:
    found = bench.run("process", "plain", hazard, "plain")
    assert [one.result for one in found] == [0, 1, 2]
    assert [one.attempt for one in found] == [1, 2, 1]
    assert found[1].error is not None
    assert found[1].error["code"] == "process_died"
    assert how in found[1].error["message"]
    assert all(is_gone(pid) for pid in bench.programs())


@pytest.mark.parametrize("hazard", ["a_program_and_then_nothing", "busy_in_c", "stopped"])
def test_a_process_out_of_time_is_ended_with_all_it_started(bench: Bench, hazard: str) -> None:
    found = bench.run("process", hazard, "plain", handler="Timed")
    assert [one.result for one in found] == [0, 1]
    assert [one.attempt for one in found] == [2, 1]
    assert found[0].error is not None
    assert found[0].error["code"] == "timed_out"
    assert all(is_gone(pid) for pid in bench.programs())


def test_os_exit_in_a_thread_ends_the_worker_and_another_one_goes_on(bench: Bench) -> None:
    (found,) = bench.submit("os_exit")
    assert bench.worker("thread", "Brief").exit_status() == 7
    assert found.status == "claimed"
    second = bench.worker("thread")
    bench.wait_ended()
    bench.stop(second)
    assert (found.result, found.attempt) == (0, 2)


def test_an_alarm_in_a_thread_is_ignored_and_told(bench: Bench) -> None:
    found = bench.submit("an_alarm_that_comes", "plain")
    worker = bench.worker("thread")
    bench.wait_ended()
    bench.stop(worker)
    assert [(one.result, one.attempt) for one in found] == [(0, 1), (1, 1)]
    assert "SIGALRM of a handler is ignored" in worker.errors()


@BOTH
@pytest.mark.parametrize(
    ("hazard", "kind", "message"),
    [
        ("a_huge_result", "ResultError", "the result is too large: 52428802 bytes"),
        (
            "a_generator",
            "ResultError",
            "the result is not JSON: handle returned a generator",
        ),
        (
            "a_coroutine",
            "ResultError",
            "the result is not JSON: handle returned a coroutine",
        ),
        ("high_recursion_limit_and_a_deep_result", "ResultError", "the result is not JSON: it nests deeper"),
        ("keyboard_interrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("generator_exit", "GeneratorExit", "GeneratorExit"),
        ("stop_iteration", "StopIteration", "StopIteration"),
        ("system_exit", "SystemExit", "0"),
        ("an_exception_that_bites", "Bites", "Bites (its message cannot be shown)"),
    ],
)
def test_odd_ends_are_failures_of_one_attempt(
    bench: Bench, executor: str, hazard: str, kind: str, message: str
) -> None:
    odd, plain = bench.run(executor, hazard, "plain", max_attempts=1)
    assert odd.status == "failed"
    assert odd.error is not None
    assert odd.error["type"] == kind
    assert odd.error["message"].startswith(message)
    assert (plain.result, plain.attempt) == (1, 1)


@BOTH
def test_a_result_as_large_as_is_allowed_arrives_whole(bench: Bench, executor: str) -> None:
    large, plain = bench.run(executor, "a_result_as_large_as_is_allowed", "plain")
    assert large.result == "x" * ((1 << 20) - 2)
    assert plain.result == 1


@BOTH
def test_a_worker_without_standard_streams_works(bench: Bench, executor: str) -> None:
    found = bench.submit("look", "plain")
    worker = bench.worker(executor, shell="0<&- 1>&- 2>&-")
    bench.wait_ended()
    worker.signal(signal.SIGTERM)
    assert worker.exit_status() == 0
    assert found[1].result == 1


@BOTH
def test_signals_to_all_processes_let_running_work_be_told(bench: Bench, executor: str) -> None:
    """Ctrl-C goes to the whole group, and a service manager's SIGTERM to every process."""
    found = bench.api.rvq.sub_task(bench.api.rvq.submit(1))
    worker = bench.worker(executor, "Patient")
    worker.wait_for("began")
    worker.signal_group(signal.SIGINT)
    worker.wait_for("told")
    assert worker.exit_status() == 0
    assert (found.result, found.attempt) == (1, 1)


@BOTH
def test_a_worker_that_was_paused_beyond_its_lease_is_told_and_overwrites_nothing(
    bench: Bench, executor: str
) -> None:
    found = bench.api.rvq.sub_task(bench.api.rvq.submit(1))
    first = bench.worker(executor, "Patient")
    first.wait_for("began")
    first.signal(signal.SIGSTOP)
    second = bench.worker(executor, "Patient")
    bench.wait_ended()
    assert (found.result, found.attempt) == (2, 2)
    first.signal(signal.SIGCONT)
    first.wait_for("told")
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        assert worker.exit_status() == 0
    assert (found.result, found.attempt) == (2, 2)


def test_a_killed_worker_takes_everything_with_it_even_what_is_busy_in_c(bench: Bench) -> None:
    bench.submit("busy_in_c")
    worker = bench.worker("process")
    pids = [int(worker.wait_for(word)[-1]) for word in ("began", "program", "program")]
    worker.wait_for("busy")
    worker.signal(signal.SIGKILL)
    wait_until(lambda: all(is_gone(pid) for pid in pids), "nothing of the worker is left", PATIENCE)


def test_a_second_signal_takes_everything_with_it(bench: Bench) -> None:
    bench.submit("a_program_and_then_nothing")
    worker = bench.worker("process")
    pids = [int(worker.wait_for(word)[-1]) for word in ("began", "program", "program")]
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGINT)
    worker.exit_status()
    wait_until(lambda: all(is_gone(pid) for pid in pids), "nothing of the worker is left", PATIENCE)


def test_a_killed_guard_costs_one_attempt(bench: Bench) -> None:
    found = bench.api.rvq.sub_task(bench.api.rvq.submit(1))
    worker = bench.worker("process", "Patient")
    runner = int(worker.wait_for("began")[3])
    signal.pidfd_send_signal(_pidfd_of_parent(runner), signal.SIGKILL)
    bench.wait_ended()
    bench.stop(worker)
    assert (found.result, found.attempt) == (2, 2)
    assert is_gone(runner)


def _pidfd_of_parent(pid: int) -> int:
    return os.pidfd_open(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]))
