"""A disk that is full: writes are refused with a 503 that is true, and readiness says so."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from app.db import Pool
from rvq.embedded import Cluster
from tests.app.rig import make_caller
from tests.support.concurrency import wait_until

LARGE = {"sub_tasks": [{"payload": "x" * 200_000} for _ in range(5)]}


@pytest.fixture
def small_disk(own_cluster: Cluster) -> Iterator[Path]:
    """A file system of 64 MiB with the database on it, but not its write-ahead log; making one takes root."""
    folder = own_cluster.folder.with_name("small-disk")
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("a file system of a given size takes root")
    try:
        data = own_cluster.folder / "data"
        os.chown(folder, data.stat().st_uid, data.stat().st_gid)
        connection = psycopg2.connect(own_cluster.url("postgres"))
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            cursor.execute("ALTER DATABASE rvq SET TABLESPACE small")
        yield folder
    finally:
        own_cluster.stop()
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


def test_a_full_disk_is_told_by_creates_and_by_readiness_until_there_is_room(
    own_cluster: Cluster, small_disk: Path
) -> None:
    pool = Pool(own_cluster.url("rvq"), 2, "rvq-full")
    pool.open()
    with contextlib.closing(pool):
        api = make_caller(own_cluster.url("rvq"), pool)
        pool.change("SELECT rvq.create_partitions(1)")
        assert api.call("GET", "/readyz").status == 200
        ballast = small_disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        wait_until(lambda: api.call("GET", "/readyz").status == 503, "readiness finds out by itself")
        assert "disk" in api.call("GET", "/readyz").problem(503, "not_ready").detail
        api.partner("POST", "/v1/tasks", LARGE).problem(503, "database_unavailable")
        assert api.partner("GET", "/v1/tasks").expect(200)["items"] == []
        ballast.unlink()
        wait_until(lambda: api.call("GET", "/readyz").status == 200, "it is ready again")
        api.partner("POST", "/v1/tasks", LARGE).expect(201)
