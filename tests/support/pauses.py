"""What pauses a process without its knowing: SIGSTOP, and the freezer of cgroups, as containers use it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.concurrency import wait_until

# Longer than anything that is paused waits at a time.
SECONDS = 3.0
CGROUPS = Path("/sys/fs/cgroup")

Pause = Callable[[int], AbstractContextManager[None]]


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop the process, and let it go on after the block and SECONDS."""
    os.kill(pid, signal.SIGSTOP)
    with _lasting():
        yield
    os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Freeze the process in a cgroup of its own; skips the test where there is no freezer for us."""
    first = (CGROUPS / "cgroup.controllers").exists()
    group = (CGROUPS if first else CGROUPS / "freezer") / f"rvq-test-{pid}"
    name, on, off = ("cgroup.freeze", "1", "0") if first else ("freezer.state", "FROZEN", "THAWED")
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(pid))
        (group / name).write_text(on)
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no freezer for us here: {error}")
    try:
        wait_until(lambda: _is_frozen(group), "it is frozen")
        with _lasting():
            yield
    finally:
        (group / name).write_text(off)
        (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _is_frozen(group: Path) -> bool:
    events = group / "cgroup.events"
    if events.exists():
        return "frozen 1" in events.read_text()
    return (group / "freezer.state").read_text().strip() == "FROZEN"


@contextlib.contextmanager
def _lasting() -> Iterator[None]:
    """Last SECONDS at least: that much time has to pass for what is paused."""
    over = time.monotonic() + SECONDS
    yield
    wait_until(lambda: time.monotonic() > over, "the pause is over")
