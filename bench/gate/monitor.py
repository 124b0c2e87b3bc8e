"""A thread looks at the machine every second: CPU by component, WAL, connections, memory, deadlocks."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg2

from bench.background import in_background
from bench.postgres import connect
from bench.procfs import cpu_seconds_of_trees, tree_memory_bytes

SECONDS = 1.0
# Memory takes the kernel milliseconds to add up: of those that have to keep it, and not at each look.
MEMORY_OF, MEMORY_EVERY = ("API", "dispatcher"), 5
SERVER = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
       (SELECT sum(deadlocks) FROM pg_stat_database),
       (SELECT sum(xact_commit) FROM pg_stat_database)"""
CONNECTIONS = """
SELECT CASE WHEN application_name = '' THEN backend_type ELSE application_name END, count(*)
  FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY 1"""


@dataclass(frozen=True)
class Look:
    """`at` in Unix seconds; CPU seconds and memory bytes by component, totals since the start."""

    at: float
    cpu: Mapping[str, float]
    memory: Mapping[str, int]
    connections: Mapping[str, int]
    wal: int
    deadlocks: int
    commits: int


@dataclass
class Monitor:
    """`pids`: the root process of each component."""

    url: str
    pids: Mapping[str, int]
    looks: list[Look] = field(default_factory=list)

    def watching(self) -> contextlib.AbstractContextManager[None]:
        return in_background(self._watch)

    def _watch(self, done: threading.Event) -> None:
        with contextlib.closing(connect(self.url, "gate")) as connection, connection.cursor() as cursor:
            while True:
                self.looks.append(self._look(cursor))
                if done.wait(SECONDS):
                    return

    def _look(self, cursor: psycopg2.extensions.cursor) -> Look:
        cursor.execute(CONNECTIONS)
        connections = dict(cursor.fetchall())
        cursor.execute(SERVER)
        ((wal, deadlocks, commits),) = cursor.fetchall()
        return Look(
            at=time.time(),
            cpu=cpu_seconds_of_trees(self.pids),
            memory=self._memory(),
            connections=connections,
            wal=int(wal),
            deadlocks=int(deadlocks),
            commits=int(commits),
        )

    def _memory(self) -> Mapping[str, int]:
        if len(self.looks) % MEMORY_EVERY:
            return self.looks[-1].memory
        return {name: tree_memory_bytes(self.pids[name]) for name in MEMORY_OF if name in self.pids}


def inside(looks: Sequence[Look], window: tuple[float, float]) -> list[Look]:
    """Return the looks of a window (Unix seconds); at least two of them, or none."""
    found = [look for look in looks if window[0] - SECONDS / 2 <= look.at <= window[1] + SECONDS / 2]
    return found if len(found) > 1 else []


def machine_figures(looks: Sequence[Look], window: tuple[float, float], tasks: int) -> dict[str, object]:
    """Return CPU microseconds a task and share of a core by component, WAL and memory, over the window."""
    seen = inside(looks, window)
    if not seen:
        return {}
    first, last = seen[0], seen[-1]
    seconds = last.at - first.at
    # Tasks of the window, scaled to what the looks span.
    done = max(1.0, tasks * seconds / (window[1] - window[0]))
    most = functools.reduce(operator.or_, (Counter(look.connections) for look in seen))
    cpu = {name: last.cpu[name] - first.cpu[name] for name in last.cpu}
    return {
        "cpu_us_per_task": {name: used / done * 1e6 for name, used in cpu.items()},
        "cores": {name: used / seconds for name, used in cpu.items()},
        "wal_bytes_per_task": (last.wal - first.wal) / done,
        "commits_per_task": (last.commits - first.commits) / done,
        "deadlocks": last.deadlocks - first.deadlocks,
        "memory_after_warmup": dict(first.memory),
        "memory_at_end": dict(last.memory),
        "connections_at_start": dict(looks[0].connections),
        "connections_most": dict(sorted(most.items())),
    }
