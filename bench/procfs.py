"""What processes have used, from /proc: CPU of a process and all its children, memory, machine and load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(pid: int) -> float:
    """CPU that the process and every descendant used so far, ended and reaped ones included. 0: no such one.

    A tick is 10 ms: measure over seconds.
    """
    return sum(_cpu_seconds(member) for member in tree(pid))


def tree_memory_bytes(pid: int) -> int:
    """Memory of the process and its descendants; what they share is counted once (proportional set size)."""
    return sum(_proportional_bytes(member) for member in tree(pid))


def tree(pid: int) -> Iterator[int]:
    """The process and all its living descendants."""
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for thread in threads:
        try:
            children = (thread / "children").read_text()
        except OSError:
            continue
        for child in children.split():
            yield from tree(int(child))


def machine() -> dict[str, object]:
    """What a reader needs to place the figures."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": cpu[0].partition(":")[2].strip() if cpu else "unknown",
        "memory_gib": round(int(memory) / 1024**2, 1),
        "kernel": os.uname().release.partition("-")[0],
        "load_at_start": round(os.getloadavg()[0], 1),
    }


def _cpu_seconds(pid: int) -> float:
    """Of the process and of the children that it has waited for: utime, stime, cutime, cstime."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11:15]) / TICKS


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
