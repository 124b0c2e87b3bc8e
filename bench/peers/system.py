"""Systems are compared by what their turns give."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.crew import Crew
from rvq.embedded import Cluster

# The cluster, the name of an empty database in it, a folder for logs.
Start = Callable[[Cluster, str, Path], AbstractContextManager[Crew]]


@dataclass(frozen=True)
class System:
    """`sub_tasks`: how many at size 1, a few seconds' worth. `missing`: why it can't run here, or None.

    `ours`: no peer, hence no yardstick. `single_calls`: it has create, claim and complete over HTTP.
    """

    name: str
    title: str
    language: str
    sub_tasks: int
    missing: Callable[[], str | None]
    start: Start
    batch_mode: str
    fan_in_mode: str
    ours: bool = False
    single_calls: bool = False


@dataclass(frozen=True)
class Turn:
    """Sub_tasks a second, seconds to each callback, calls a second by name, microseconds of CPU a sub_task.

    `cpu` is that of PostgreSQL, and of everything else that ran: the system, its clients, this program.
    """

    throughput: float
    fan_in: list[float]
    single_calls: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)


@dataclass
class SystemResult:
    """The result of one system: all its turns. `trouble`: why it was not run, or not to the end."""

    system: System
    turns: list[Turn] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    trouble: str | None = None
