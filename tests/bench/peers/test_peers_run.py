"""Real turns, of a size that takes seconds. Peers that `make peers` has not installed are left out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.peers.__main__ import main
from bench.peers.child import Child, DriverError, Lines, next_line
from bench.peers.crew import Crew
from bench.peers.rounds import Size, run_rounds
from bench.peers.system import System
from bench.peers.systems import SYSTEMS
from rvq.embedded import Cluster, throwaway_cluster

TINY = Size(rounds=1, factor=0.002)
OURS = [system for system in SYSTEMS if system.ours]
PEERS = [system for system in SYSTEMS if not system.ours]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with throwaway_cluster() as cluster:
        yield cluster


def name_of(system: System) -> str:
    return system.name


def test_rvq_is_measured_from_the_command_line(tmp_path: Path) -> None:
    options = ["--only", "rvq", "--rounds", "1", "--size", str(TINY.factor), "--results", str(tmp_path)]
    assert main(options) == 0
    (turn,) = json.loads((tmp_path / "peers.json").read_text())["systems"]["rvq"]["turns"]
    assert turn["throughput"] > 0
    assert len(turn["fan_in"]) == TINY.fan_in_tasks
    assert set(turn["single_calls"]) == {"create", "claim", "complete"}
    assert all(rate > 0 for rate in turn["single_calls"].values())
    assert all(0 < seconds < 60 for seconds in turn["fan_in"])


@pytest.mark.parametrize("system", [*OURS[1:], *PEERS], ids=name_of)
def test_a_system_has_its_turn(cluster: Cluster, system: System) -> None:
    if missing := system.missing():
        pytest.skip(missing)
    said: list[str] = []
    (result,) = run_rounds(cluster, [system], TINY, said.append)
    assert result.trouble is None
    assert result.turns[0].throughput > 0
    assert min(result.turns[0].fan_in) > 0
    assert result.versions
    assert said


def test_a_system_that_can_not_run_or_fails_says_why_and_is_not_tried_again(cluster: Cluster) -> None:
    started: list[str] = []

    def fail(_cluster: Cluster, database: str, folder: Path) -> Crew:
        started.append(database)
        return Crew("broken", {"producer": (sys.executable, "-c", "1 / 0")}, os.environ, folder)

    absent = System("absent", "Absent", "Python", 10, lambda: "not here", fail, "", "")
    broken = System("broken", "Broken", "Python", 10, lambda: None, fail, "", "")
    results = run_rounds(cluster, [absent, broken], Size(rounds=2, factor=0.01), lambda _: None)
    assert results[0].trouble == "not here"
    assert "ZeroDivisionError" in str(results[1].trouble)
    assert started == ["peers-broken"]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[[str, Lines], Child]]:
    children: list[Child] = []

    def start(code: str, lines: Lines) -> Child:
        command = (sys.executable, "-c", code)
        children.append(Child("driver", command, os.environ, tmp_path / "log", lines))
        return children[-1]

    yield start
    for one in children:
        one.stop()


def test_a_driver_takes_commands_and_ends_with_its_input(child: Callable[[str, Lines], Child]) -> None:
    lines = Lines()
    echo = child("import sys\nfor line in sys.stdin: print('noise'); print(line, flush=True)", lines)
    echo.tell(do="throughput", count=3)
    assert next_line(lines, time.monotonic() + 10) == (echo, {"do": "throughput", "count": 3})
    echo.stop()
    with pytest.raises(DriverError, match="ended too early"):
        next_line(lines, time.monotonic() + 10)


def test_silence_ends_at_the_deadline(child: Callable[[str, Lines], Child]) -> None:
    lines = Lines()
    child("import sys; sys.stdin.read()", lines)
    with pytest.raises(DriverError, match="in time"):
        next_line(lines, time.monotonic() + 0.05)
