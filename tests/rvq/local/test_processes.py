"""Child processes: ready or not, stopped within a deadline, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rvq.embedded.postmaster import process_alive
from rvq.local.processes import Process, ProcessError
from tests.support.concurrency import wait_until

Start = Callable[..., Process]

READY_THEN_WAIT = """
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
    out.connect(os.environ["NOTIFY_SOCKET"])
    out.send(b"STATUS=warming")
    out.send(b"STATUS=warm\\nREADY=1")
    for _ in range(1000):  # blocks for good when nobody takes them
        out.send(b"STATUS=busy")
print("said all", flush=True)
signal.pause()
"""
DEAF_WITH_A_CHILD = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
print(child.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a Python program as a child; whatever still runs is killed."""
    started: list[Process] = []

    def start(program: str, *, notify: bool = False) -> Process:
        command = [sys.executable, "-c", program]
        process = Process("the child", command, os.environ, log=tmp_path / "child.log", notify=notify)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.stop()


def printed(process: Process) -> str:
    assert process.log
    log = process.log
    wait_until(lambda: log.read_text().endswith("\n"), "the child printed a line")
    return log.read_text().strip()


def test_a_child_that_says_ready_is_waited_for_and_stopped_with_its_own_status(start: Start) -> None:
    process = start(READY_THEN_WAIT, notify=True)
    process.wait_until_notified(30)
    assert printed(process) == "said all"
    assert process.returncode is None
    assert process.stop() == 7
    assert process.returncode == 7


def test_a_child_that_ends_before_it_is_ready_is_an_error_with_its_last_words(start: Start) -> None:
    process = start("import sys; sys.exit('no such setting')", notify=True)
    with pytest.raises(ProcessError, match=r"(?s)the child ended with status 1.*no such setting"):
        process.wait_until_notified(30)


def test_a_child_that_is_not_ready_in_time_is_an_error(start: Start) -> None:
    process = start("import signal; signal.pause()")
    with pytest.raises(ProcessError, match=r"not ready in 0\.05 s"):
        process.wait_until(lambda: False, 0.05)


def test_a_child_that_ignores_sigterm_is_killed_at_the_deadline_with_its_own_children(start: Start) -> None:
    process = start(DEAF_WITH_A_CHILD)
    grandchild = int(printed(process))
    assert process.stop(deadline_seconds=0.05) == -signal.SIGKILL
    wait_until(lambda: not process_alive(grandchild), "the grandchild is gone")


def test_stop_is_safe_to_repeat_and_after_the_end(start: Start) -> None:
    process = start("")
    assert process.wait(30) == 0
    assert process.stop() == 0
    assert process.stop() == 0
    process.signal(signal.SIGTERM)


def test_a_descriptor_that_is_passed_stays_open_in_the_child(tmp_path: Path) -> None:
    with (tmp_path / "passed").open("w") as file:
        program = f"import os; os.write({file.fileno()}, b'from the child')"
        process = Process("the child", [sys.executable, "-c", program], os.environ, pass_fds=[file.fileno()])
        assert process.wait(30) == 0
        process.stop()
    assert (tmp_path / "passed").read_text() == "from the child"


def test_children_are_stopped_when_their_parent_is_killed() -> None:
    program = (
        "import os, sys\n"
        "from rvq.local.processes import Process\n"
        "child = Process('the child', ['sleep', '1000'], os.environ)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not process_alive(child), "the child is gone")
