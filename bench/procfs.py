"""What processes have used: CPU of a process and all its children, memory, machine and load."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

GIB = 1024**3


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU that the process and every descendant used so far, ended ones included. 0: no such one.

    A tick is 10 ms: measure over seconds.
    """
    return cpu_seconds_of_trees({"": pid})[""]


def cpu_seconds_of_trees(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the same of several. Looking costs CPU itself: each process is looked at once, no thread is."""
    seen = _processes()
    # User and system time, and both of the children that it has waited for; what follows is no CPU.
    used = {pid: sum(process["cpu_times"][:4]) for pid, process in seen.items()}
    return {name: sum(used[member] for member in _tree(pid, seen)) for name, pid in pids.items()}


def tree_memory_bytes(pid: int) -> int:
    """Return the memory of the process and its descendants; what they share counts once (by Pss).

    The kernel walks every page for that: some milliseconds, in which the process can't map memory.
    """
    total = 0
    for member in tree(pid):
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(member).memory_full_info().pss
    return total


def tree(pid: int) -> Iterator[int]:
    """Yield the process and all its living descendants."""
    return _tree(pid, _processes())


def machine() -> dict[str, object]:
    """Return what a reader needs to place the figures."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": cpu[0].partition(":")[2].strip() if cpu else "unknown",
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "kernel": os.uname().release.partition("-")[0],
        "load_at_start": round(os.getloadavg()[0], 1),
    }


def _processes() -> dict[int, dict[str, Any]]:
    return {process.pid: process.info for process in psutil.process_iter(["ppid", "cpu_times"])}


def _tree(pid: int, seen: Mapping[int, Mapping[str, Any]]) -> Iterator[int]:
    if pid in seen:
        yield pid
        for child, process in seen.items():
            if process["ppid"] == pid:
                yield from _tree(child, seen)
