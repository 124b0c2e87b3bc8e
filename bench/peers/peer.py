"""A peer in PostgreSQL installs its schema; then its crew is a producer and two workers."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from app.paths import ROOT
from bench.peers.crew import READY_SECONDS, Command, Crew
from bench.peers.system import Start
from rvq.embedded import Cluster

WORKERS = 2  # processes, as many as the cores of the reference machine
PYTHON_FOLDER = ROOT / ".venv-peers"
CommandOf = Callable[[str, str, str], Command]  # the driver's name, its role, a URL
NODE_FOLDER = ROOT / "bench" / "peers" / "node"
INSTALLED = ".installed"  # the Makefile's mark in a folder that is complete


def python_command(name: str, role: str, url: str) -> Command:
    return PYTHON_FOLDER / "bin" / "python", "-m", f"bench.peers.drivers.{name}_driver", role, url


def node_command(name: str, role: str, url: str) -> Command:
    return "node", NODE_FOLDER / f"{name}.js", role, url


def driver_environ() -> dict[str, str]:
    """Return the environment of drivers: their interpreter finds our modules by PYTHONPATH."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def python_is_missing() -> str | None:
    if not (PYTHON_FOLDER / INSTALLED).exists():
        return "its environment .venv-peers is not complete; `make peers` makes it"
    return None


def node_is_missing() -> str | None:
    if shutil.which("node") is None:
        return "no node on this machine; it needs Node 20"
    if not (NODE_FOLDER / "node_modules" / INSTALLED).exists():
        return "its packages are not installed; `make peers` lets npm do it"
    return None


def in_postgres(name: str, command: CommandOf) -> Start:
    """Return what starts the driver of this name (see drivers/ and node/)."""

    @contextlib.contextmanager
    def start(cluster: Cluster, database: str, folder: Path) -> Iterator[Crew]:
        url = cluster.url(database)
        with Crew(name, {"installer": command(name, "install", url)}, driver_environ(), folder) as installing:
            installing.wait_until_ended(READY_SECONDS)
        with Crew(name, crew_commands(name, command, url), driver_environ(), folder) as crew:
            yield crew

    return start


def crew_commands(name: str, command: CommandOf, url: str) -> dict[str, Command]:
    workers = {f"worker-{number}": command(name, "worker", url) for number in range(WORKERS)}
    return {"producer": command(name, "produce", url), **workers}
