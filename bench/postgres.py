"""Benchmarks run on a PostgreSQL with the deployed settings, durable, in a throw-away folder, warmed up."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg2

from app.paths import ROOT
from rvq.embedded import DURABLE, Cluster, throwaway_cluster

DEPLOYED = ROOT / "deploy" / "postgresql" / "rvq.conf"
GIB = 1024**3


@contextlib.contextmanager
def bench_cluster(
    version: int | str | Path = 16, extra: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Yield a started cluster with the settings of deploy/postgresql, `extra` on top."""
    settings = {**deployed_settings(), **wal_budget(), **DURABLE, **(extra or {})}
    with throwaway_cluster(version=version, settings=settings) as cluster:
        _fill_wal(cluster)
        yield cluster


def connect(url: str, application_name: str = "bench") -> psycopg2.extensions.connection:
    """Return a connection in autocommit."""
    connection: psycopg2.extensions.connection = psycopg2.connect(url, application_name=application_name)
    connection.autocommit = True
    return connection


def server_pid(cluster: Cluster) -> int:
    """Return the pid of the postmaster, which must run."""
    server = cluster.running
    assert server, "PostgreSQL is gone"
    return server.pid


def deployed_settings(file: Path = DEPLOYED) -> dict[str, str]:
    """Return the `name = value` lines of a configuration file."""
    settings = {}
    for line in file.read_text().splitlines():
        name, equals, value = line.partition("#")[0].partition("=")
        if equals:
            settings[name.strip()] = value.strip().strip("'")
    return settings


def wal_budget() -> dict[str, str]:
    """Return 32 GB of WAL, or a third of the free disk: no checkpoint may fall into a measurement."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    gib = max(1, min(32, free // 3 // GIB))
    return {"max_wal_size": f"{gib}GB", "min_wal_size": f"{max(1, gib // 8)}GB"}


def _fill_wal(cluster: Cluster) -> None:
    """Fill the WAL files that a server has after it has run for a while: as many as `min_wal_size` keeps.

    It writes over old ones. A new one is filled with zeros and flushed before, some 40 ms in which nobody
    commits: at 833 tasks a second every two seconds, which is what p99 would show of it.
    """
    with contextlib.closing(connect(cluster.url())) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_size_bytes(current_setting('min_wal_size'))"
            " / pg_size_bytes(current_setting('wal_segment_size'))"
        )
        ((files,),) = cursor.fetchall()
        for _ in range(files):
            cursor.execute("SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()")
        cursor.execute("CHECKPOINT")
