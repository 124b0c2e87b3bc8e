"""Is a server running on this data folder? Read from its postmaster.pid, which a crash leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

READY = "ready"


@dataclass(frozen=True)
class Postmaster:
    """The lines of postmaster.pid that matter, of a process that is alive and serves this folder."""

    pid: int
    port: int
    status: str


def running_postmaster(data: Path) -> Postmaster | None:
    """The live server of this data folder, or None (no file, a torn one, or a stale one)."""
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
    """After a crash the number in the file may be another program's by now.

    PostgreSQL then refuses to start. Backends that outlived a killed postmaster are not endangered: the
    shared memory that they hold still stops a second server.
    """
    if running_postmaster(data) is None:
        (data / "postmaster.pid").unlink(missing_ok=True)


def stop_postmaster(pid: int, data: Path, deadline_seconds: float) -> None:
    """Fast shutdown; at the deadline an immediate one; then a kill. Returns when the process is gone."""
    for number, patience in ((signal.SIGINT, deadline_seconds), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if _gone(pid, data, patience):
            return


def _gone(pid: int, data: Path, patience_seconds: float) -> bool:
    give_up = time.monotonic() + patience_seconds
    while _serves(pid, data):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _serves(pid: int, data: Path) -> bool:
    """A postmaster stays in its data folder, so its working directory proves which server it is."""
    if not Path("/proc/self").exists():
        return process_alive(pid)
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:  # no such process, a zombie, or one of another user's
        return False


def process_alive(pid: int) -> bool:
    """Whether the process exists and has not ended (one that nobody has waited for yet still exists)."""
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
