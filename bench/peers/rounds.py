"""Every system has a turn in every round, in an order that moves on, on one PostgreSQL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.child import DriverError
from bench.peers.crew import Crew
from bench.peers.system import System, SystemResult, Turn
from bench.postgres import server_pid
from bench.procfs import tree_cpu_seconds
from rvq.embedded import Cluster
from rvq.local.processes import ProcessError

FAN_IN_SUB_TASKS = 100
WARM_UP_TASKS = 5
LEAST_SUB_TASKS = 200
Say = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """`factor` 1 is the full measurement."""

    rounds: int = 5
    factor: float = 1.0

    def sub_tasks(self, full: int) -> int:
        return max(LEAST_SUB_TASKS, round(full * self.factor))

    @property
    def fan_in_tasks(self) -> int:
        return max(2, round(100 * self.factor))

    @property
    def single_calls(self) -> int:
        return max(40, round(4_000 * self.factor))


def run_rounds(
    cluster: Cluster, systems: Sequence[System], size: Size, say: Say = print
) -> list[SystemResult]:
    """Return a result for every system, in the order given; one that can't run, or fails, says why."""
    results = {system.name: SystemResult(system, trouble=system.missing()) for system in systems}
    for number in range(size.rounds):
        for system in order_of_round(systems, number):
            result = results[system.name]
            if result.trouble is None:
                say(f"round {number + 1}, {system.title}: {_try_turn(cluster, result, size)}")
    return list(results.values())


def order_of_round(systems: Sequence[System], number: int) -> list[System]:
    """Return the order of a round: each begins with the next system, so none always follows the same load."""
    start = number % len(systems)
    return [*systems[start:], *systems[:start]]


def _try_turn(cluster: Cluster, result: SystemResult, size: Size) -> str:
    """Run a turn; return what to say of it."""
    try:
        turn = _turn(cluster, result, size)
    except (DriverError, ProcessError) as error:
        result.trouble = f"failed in round {len(result.turns) + 1}: {error}"
        return result.trouble
    result.turns.append(turn)
    return _gist(turn)


def _turn(cluster: Cluster, result: SystemResult, size: Size) -> Turn:
    """Measure one turn in an empty database of its own, after a warm-up."""
    system = result.system
    database = f"peers-{system.name}"
    cluster.create_database(database)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="rvq-peers-") as folder,
            system.start(cluster, database, Path(folder)) as crew,
        ):
            result.versions.update(crew.versions)
            return _measure(cluster, crew, system, size)
    finally:
        cluster.drop_database(database)


def _measure(cluster: Cluster, crew: Crew, system: System, size: Size) -> Turn:
    count = size.sub_tasks(system.sub_tasks)
    crew.throughput(size.sub_tasks(system.sub_tasks // 10))
    before = _cpu(cluster)
    throughput = crew.throughput(count)
    cpu = {name: (after - before[name]) / count * 1e6 for name, after in _cpu(cluster).items()}
    for _ in range(WARM_UP_TASKS):
        crew.fan_in(FAN_IN_SUB_TASKS)
    fan_in = [crew.fan_in(FAN_IN_SUB_TASKS) for _ in range(size.fan_in_tasks)]
    single_calls = crew.single_calls(size.single_calls) if system.single_calls else {}
    return Turn(throughput, fan_in, single_calls, cpu)


def _cpu(cluster: Cluster) -> dict[str, float]:
    return {"PostgreSQL": tree_cpu_seconds(server_pid(cluster)), "the rest": tree_cpu_seconds(os.getpid())}


def _gist(turn: Turn) -> str:
    slowest = max(turn.fan_in) * 1e3
    return f"{turn.throughput:,.0f} sub_tasks a second, callbacks within {slowest:,.0f} ms"
