"""The postmaster.pid file tells whether a server runs on a data folder; a crash leaves the file behind."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from rvq.waiting import wait_until

# The words of a server that takes connections; a standby takes reads.
READY = ("ready", "standby")


@dataclass(frozen=True)
class Postmaster:
    """The lines of postmaster.pid that matter, of a process that is alive and serves this folder."""

    pid: int
    port: int
    status: str


def running_postmaster(data: Path) -> Postmaster | None:
    """Return the live server of this data folder, or None (no file, a torn one, or a stale one)."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if not _serves(pid, data):
        return None
    port = int(lines[3]) if len(lines) > 3 and lines[3].isdigit() else 0
    return Postmaster(pid, port, lines[7].strip() if len(lines) > 7 else "")


def remove_stale_pid_file(data: Path) -> None:
    """Delete the file unless its server lives: after a crash its number may be another program's by now.

    PostgreSQL would refuse to start. Backends that outlived a killed postmaster are not endangered: the
    shared memory that they hold still stops a second server.
    """
    if running_postmaster(data) is None:
        (data / "postmaster.pid").unlink(missing_ok=True)


def stop_postmaster(pid: int, data: Path, deadline_seconds: float) -> None:
    """Ask for a fast shutdown, at the deadline for an immediate one, then kill; return when it is gone."""
    for number, seconds in ((signal.SIGINT, deadline_seconds), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if wait_until(lambda: not _serves(pid, data), seconds):
            return


def _serves(pid: int, data: Path) -> bool:
    """Return whether the process serves this folder: a postmaster's working directory is its data folder."""
    if not Path("/proc/self").exists():
        return process_alive(pid)
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:  # no such process, a zombie, or one of another user's
        return False


def process_alive(pid: int) -> bool:
    """Return whether the process exists and has not ended (a zombie has ended)."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    if Path("/proc/self").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
