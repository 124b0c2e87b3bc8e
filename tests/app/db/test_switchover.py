"""A pool whose node takes no writes any more finds the one that does, by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from app.db import DatabaseReadOnly, DatabaseUnavailable, Pool
from app.db.migrations import migrate
from rvq.embedded import Cluster
from tests.app.rig import make_caller
from tests.support.concurrency import background, wait_until
from tests.support.standby import MovingAddress, standby_of, wait_until_caught_up

SIZE = 4


@pytest.fixture
def url(empty_database: str) -> str:
    execute(empty_database, "CREATE TABLE public.marks (n integer)")
    return empty_database


@contextlib.contextmanager
def pool_on(url: str) -> Iterator[Pool]:
    pool = Pool(url, SIZE, "rvq-switch", max_waiting=100, wait_seconds=30)
    with contextlib.closing(pool):
        pool.open()
        yield pool


def execute(url: str, statement: str) -> None:
    connection = psycopg2.connect(url, options="-c default_transaction_read_only=off")
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(statement)


def ask(url: str, statement: str) -> list[tuple[object, ...]]:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def set_read_only(url: str, *, is_on: bool) -> None:
    name = psycopg2.extensions.parse_dsn(url)["dbname"]
    execute(
        url,
        f'ALTER DATABASE "{name}" '
        + ("SET" if is_on else "RESET")
        + " default_transaction_read_only"
        + (" = on" if is_on else ""),
    )


def become_read_only(url: str, pool: Pool) -> None:
    """Every session of the pool began while the database was read-only."""
    set_read_only(url, is_on=True)
    ours = "FROM pg_stat_activity WHERE application_name = 'rvq-switch' AND datname = current_database()"
    execute(url, f"SELECT pg_terminate_backend(pid, 10000) {ours}")
    with contextlib.ExitStack() as stack:
        for _ in range(SIZE):
            stack.enter_context(pool.connection())


def write(pool: Pool) -> bool:
    try:
        pool.rows("INSERT INTO public.marks VALUES (1)")
    except DatabaseUnavailable:
        return False
    return True


def sessions(pool: Pool) -> set[int]:
    """The backends of all connections, by taking every one."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(pool.connection()) for _ in range(SIZE)]
        return {connection.info.backend_pid for connection in taken}


def test_once_a_database_takes_writes_again_every_connection_writes(url: str) -> None:
    with pool_on(url) as pool:
        become_read_only(url, pool)
        with pytest.raises(DatabaseReadOnly, match="25006"):
            pool.rows("INSERT INTO public.marks VALUES (1)")
        assert not write(pool)
        assert pool.value("SELECT 1") == 1, "reads go on"
        set_read_only(url, is_on=False)
        wait_until(lambda: write(pool), "a write works")
        with ThreadPoolExecutor(SIZE) as threads:
            assert all(threads.map(lambda _: write(pool), range(10 * SIZE)))


def test_all_connections_leave_at_once_also_those_in_use(url: str) -> None:
    with pool_on(url) as pool:
        become_read_only(url, pool)
        before = sessions(pool)
        with pool.connection() as busy:
            assert not write(pool)
            assert busy.info.backend_pid in before
        assert not before & sessions(pool)


@pytest.mark.parametrize("how", ["ended", "cut off"])
def test_a_call_that_loses_its_connection_takes_all_free_ones_along(own_cluster: Cluster, how: str) -> None:
    """Their node is likely to be gone: each of them would cost a call of its own to find out."""
    with pool_on(own_cluster.url("rvq")) as pool:
        before = sessions(pool)
        with background(pool.rows, "SELECT pg_sleep(60)") as call:
            asleep = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            wait_until(lambda: ask(own_cluster.url("rvq"), f"SELECT pid {asleep}"), "the call is under way")
            if how == "ended":
                ask(own_cluster.url("rvq"), f"SELECT pg_terminate_backend(pid) {asleep}")
            else:
                assert pool.cut_off_overdue(0) == 1
            with pytest.raises(DatabaseUnavailable):
                call.result(30)
        wait_until(lambda: pool.in_use == 0, "its backend is gone", 60)
        assert not before & sessions(pool)


def test_calls_that_go_on_failing_do_not_connect_anew_each_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.places.LEAVE_EVERY_SECONDS", 60.0)
    with pool_on(url) as pool:
        become_read_only(url, pool)
        assert not write(pool)
        after = sessions(pool)
        assert [write(pool) for _ in range(20)] == [False] * 20
        assert sessions(pool) == after


def test_readiness_alone_finds_the_way_back(url: str) -> None:
    migrate(url)
    with pool_on(url) as pool:
        api = make_caller(url, pool)
        become_read_only(url, pool)
        api.call("GET", "/readyz").problem(503, "not_ready")
        set_read_only(url, is_on=False)
        wait_until(lambda: api.call("GET", "/readyz").status == 200, "it is ready again")


def test_a_create_works_again_after_a_read_only_time(url: str) -> None:
    migrate(url)
    with pool_on(url) as pool:
        api = make_caller(url, pool)
        pool.rows("SELECT rvq.create_partitions(1)")
        become_read_only(url, pool)
        body = {"sub_tasks": [{"payload": 1}]}
        api.partner("POST", "/v1/tasks", body).problem(503, "database_unavailable")
        set_read_only(url, is_on=False)
        wait_until(lambda: api.partner("POST", "/v1/tasks", body).status == 201, "a task is created")


def test_several_hosts_in_the_url_lead_to_the_promoted_standby(own_cluster: Cluster) -> None:
    execute(own_cluster.url("rvq"), "CREATE TABLE public.marks (n integer)")
    with standby_of(own_cluster) as standby:
        hosts = f"127.0.0.1:{standby.running.port},127.0.0.1:{own_cluster.running.port}"  # type: ignore[union-attr]
        url = own_cluster.url("rvq").partition("@")[0] + f"@{hosts}/rvq?target_session_attrs=read-write"
        with pool_on(url) as pool:
            assert write(pool)
            wait_until_caught_up(own_cluster, standby)
            own_cluster.stop()
            assert not write(pool)
            standby.promote()
            wait_until(lambda: write(pool), "the new primary takes the write", 30)
            assert pool.value("SELECT count(*) FROM public.marks") == 2
            migrate(url)


def test_an_address_that_moves_takes_the_pool_along(own_cluster: Cluster) -> None:
    """The old node lives on without taking writes, so that no connection breaks."""
    execute(own_cluster.url("rvq"), "CREATE TABLE public.marks (n integer)")
    with standby_of(own_cluster) as standby:
        old, new = own_cluster.running, standby.running
        assert old
        assert new
        address = MovingAddress(old.port)
        url = own_cluster.url("rvq").replace(f":{old.port}/", f":{address.port}/")
        with contextlib.closing(address), pool_on(url) as pool:
            assert write(pool)
            wait_until_caught_up(own_cluster, standby)
            standby.promote()
            execute(own_cluster.url("rvq"), "ALTER SYSTEM SET default_transaction_read_only = on")
            execute(own_cluster.url("rvq"), "SELECT pg_reload_conf()")
            wait_until(lambda: not write(pool), "the old node refuses")
            address.target = new.port
            wait_until(lambda: write(pool), "the new node takes a write", 30)
            with ThreadPoolExecutor(SIZE) as threads:
                assert all(threads.map(lambda _: write(pool), range(10 * SIZE)))


def test_a_pool_on_a_standby_writes_as_soon_as_that_is_promoted(own_cluster: Cluster) -> None:
    execute(own_cluster.url("rvq"), "CREATE TABLE public.marks (n integer)")
    with standby_of(own_cluster) as standby, pool_on(standby.url("rvq")) as pool:
        with pytest.raises(DatabaseReadOnly):
            pool.rows("INSERT INTO public.marks VALUES (1)")
        with pytest.raises(DatabaseReadOnly, match="55000"):
            pool.rows("SELECT pg_current_wal_lsn()")
        with pytest.raises(DatabaseReadOnly, match="it is a standby"):
            migrate(standby.url("rvq"))
        standby.promote()
        wait_until(lambda: write(pool), "the promoted standby takes a write", 30)
