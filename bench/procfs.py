"""/proc tells what processes have used: CPU of a process and all its children, memory, machine and load."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU that the process and every descendant used so far, ended ones included. 0: no such one.

    A tick is 10 ms: measure over seconds.
    """
    return cpu_seconds_of_trees({"": pid})[""]


def cpu_seconds_of_trees(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the same of several. Looking costs CPU itself: each process is looked at once, no thread is."""
    seen = _processes()
    return {name: sum(seen[member].cpu_seconds for member in _tree(pid, seen)) for name, pid in pids.items()}


def tree_memory_bytes(pid: int) -> int:
    """Return the memory of the process and its descendants; what they share counts once (by Pss).

    The kernel walks every page for that: some milliseconds, in which the process can't map memory.
    """
    return sum(_proportional_bytes(member) for member in tree(pid))


def tree(pid: int) -> Iterator[int]:
    """Yield the process and all its living descendants."""
    return _tree(pid, _processes())


def machine() -> dict[str, object]:
    """Return what a reader needs to place the figures."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": cpu[0].partition(":")[2].strip() if cpu else "unknown",
        "memory_gib": round(int(memory) / 1024**2, 1),
        "kernel": os.uname().release.partition("-")[0],
        "load_at_start": round(os.getloadavg()[0], 1),
    }


class _Process(NamedTuple):
    """`cpu_seconds`: with those of the children that it has waited for."""

    parent: int
    cpu_seconds: float


def _processes() -> dict[int, _Process]:
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                # utime, stime, cutime, cstime
                cpu_seconds = sum(int(ticks) for ticks in fields[11:15]) / TICKS
                found[int(entry)] = _Process(int(fields[1]), cpu_seconds)
    return found


def _tree(pid: int, seen: Mapping[int, _Process]) -> Iterator[int]:
    if pid in seen:
        yield pid
        for child, process in seen.items():
            if process.parent == pid:
                yield from _tree(child, seen)


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
