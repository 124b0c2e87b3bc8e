"""Celery's crew needs a Redis: a server of our own on a free loopback port."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.peers.crew import Crew
from bench.peers.peer import crew_commands, driver_environ, python_command, python_is_missing
from rvq.embedded import Cluster
from rvq.local.processes import Process
from rvq.ports import free_port

READY_SECONDS = 10.0
# Redis's own advice for a queue that should survive: at most a second of it is lost.
DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")


def celery_is_missing() -> str | None:
    if shutil.which("redis-server") is None:
        return "no redis-server on this machine (Debian: the package redis-server)"
    return python_is_missing()


@contextlib.contextmanager
def celery(_cluster: Cluster, _database: str, folder: Path) -> Iterator[Crew]:
    """Start Celery, of which nothing is in PostgreSQL."""
    with redis_server(folder) as url:
        commands = crew_commands("celery", python_command, url)
        with Crew("celery", commands, driver_environ(), folder) as crew:
            crew.versions["redis-server"] = redis_version()
            yield crew


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Yield the URL of a Redis that stores into `folder`. Raises ProcessError."""
    port = free_port()
    where = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder))
    process = Process("Redis", ["redis-server", *where, *DURABLE], os.environ, log=folder / "redis.log")
    try:
        process.wait_until(lambda: _listens(port), READY_SECONDS)
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.stop(deadline_seconds=5)


def redis_version() -> str:
    told = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"v=([0-9.]+)", told)
    return found.group(1) if found else "unknown"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
