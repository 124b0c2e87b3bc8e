"""How the kernel runs our threads, as the kernel itself tells."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import cpu
from tests.support.source import ROOT

SCRIPT = """
import os, threading
from app import cpu
core = min(os.sched_getaffinity(0))
cpu.pin_to_core(core)
cpu.use_batch_policy()
thread = threading.Thread(target=lambda: print(os.sched_getscheduler(0), os.sched_getaffinity(0) == {core}))
thread.start()
thread.join()
"""


def policies(pid: int) -> Iterator[int]:
    """Yield the scheduling policy of each thread of a process; see proc_pid_stat(5)."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        yield int(stat.read_text().rpartition(")")[2].split()[38])


def test_threads_started_afterwards_have_the_batch_policy_and_the_core() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(os.SCHED_BATCH), "True"]


@pytest.mark.parametrize("refusal", [PermissionError("seccomp"), AttributeError("not Linux")])
def test_where_it_is_not_allowed_nothing_changes(monkeypatch: pytest.MonkeyPatch, refusal: Exception) -> None:
    def refuse(*_: object) -> None:
        raise refusal

    for call in ("sched_setscheduler", "sched_setaffinity"):
        monkeypatch.setattr(os, call, refuse)
    cpu.pin_to_core(0)
    cpu.use_batch_policy()
    assert os.SCHED_BATCH not in policies(os.getpid())
