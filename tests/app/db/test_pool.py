"""The pool: a fixed number of warm connections, bounded waiting, nothing dirty, nothing sent twice."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import threading
from collections.abc import Iterator

import psycopg2
import pytest

from app.db import (
    Connection,
    DatabaseUnavailable,
    Pool,
    PoolExhausted,
    StatementTimeout,
    TransactionConflict,
    connect,
)
from app.db.calls import OVERDUE_SECONDS, Calls
from rvq.embedded import Cluster
from tests.support.concurrency import background, wait_until, wait_until_blocked

# One server serves several test processes.
OURS = "application_name = 'rvq-pool-test' AND datname = current_database()"


def make_pool(url: str, size: int = 2, **options: float) -> Pool:
    return Pool(url, size, "rvq-pool-test", **options)  # type: ignore[arg-type]


@pytest.fixture
def pool(empty_database: str) -> Iterator[Pool]:
    pool = make_pool(empty_database)
    pool.open()
    yield pool
    pool.close()


@pytest.fixture
def observer(empty_database: str) -> Iterator[Connection]:
    with contextlib.closing(connect(empty_database, "rvq-observer")) as connection:
        yield connection


def ask(connection: Connection, statement: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def backends(observer: Connection) -> list[object]:
    return [row[0] for row in ask(observer, f"SELECT pid FROM pg_stat_activity WHERE {OURS} ORDER BY pid")]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_open_makes_exactly_as_many_connections_as_were_asked_for(
    empty_database: str, observer: Connection
) -> None:
    pool = make_pool(empty_database, 5)
    assert backends(observer) == []
    pool.open()
    assert len(backends(observer)) == 5
    for _ in range(20):
        pool.value("SELECT 1")
    assert len(backends(observer)) == 5
    pool.close()
    wait_until(lambda: backends(observer) == [], "all connections are closed")


def test_open_runs_the_warm_up_on_every_connection(empty_database: str, observer: Connection) -> None:
    ask(observer, "CREATE TABLE public.warmed (pid int)")
    pool = make_pool(empty_database, 4)
    pool.open(["INSERT INTO public.warmed SELECT pg_backend_pid()"])
    assert [row[0] for row in ask(observer, "SELECT pid FROM public.warmed ORDER BY pid")] == backends(
        observer
    )
    pool.close()


def test_open_that_fails_half_way_leaves_no_connection(empty_database: str, observer: Connection) -> None:
    pool = make_pool(empty_database, 3)
    with pytest.raises(psycopg2.errors.DivisionByZero):
        pool.open(["SELECT 1 / 0"])
    wait_until(lambda: backends(observer) == [], "all connections are closed")


def test_open_that_the_server_ends_says_that_the_database_is_away_and_may_be_tried_again(
    empty_database: str, observer: Connection
) -> None:
    pool = make_pool(empty_database, 3)
    with pytest.raises(DatabaseUnavailable):
        pool.open(["SELECT pg_terminate_backend(pg_backend_pid())"])
    wait_until(lambda: backends(observer) == [], "all connections are closed")
    pool.open(["SELECT 1"])
    assert len(backends(observer)) == 3
    pool.close()


def test_open_waits_no_longer_for_a_frozen_backend_than_any_call(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.calls.OVERDUE_SECONDS", 0.1)
    pool = make_pool(own_cluster.url("rvq"), 1, statement_timeout_ms=3000)
    with contextlib.closing(connect(own_cluster.url("rvq"), "rvq-observer")) as observer:
        with background(pool.open, ["SELECT pg_sleep(60)"]) as opening:
            wait_until(lambda: backends(observer), "it warms up")
            (backend,) = backends(observer)
            os.kill(int(str(backend)), signal.SIGSTOP)
            with pytest.raises(DatabaseUnavailable):
                opening.result(30)
        os.kill(int(str(backend)), signal.SIGCONT)
        wait_until(lambda: backends(observer) == [], "all connections are closed")


def test_queries_give_rows_a_row_and_a_value(pool: Pool) -> None:
    assert pool.rows("SELECT n, %s FROM generate_series(1, 2) AS n", ("x",)) == [(1, "x"), (2, "x")]
    assert pool.row("SELECT 1, 2") == (1, 2)
    assert pool.row("SELECT 1 WHERE false") is None
    assert pool.value("SELECT %s", ("ü%s",)) == "ü%s"
    assert pool.rows("CREATE TABLE public.t (id int)") == []


def test_every_session_has_its_name_and_all_timeouts(empty_database: str) -> None:
    pool = make_pool(empty_database, 1, statement_timeout_ms=1234, lock_timeout_ms=567)
    pool.open()
    names = ("application_name", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    found = [pool.value("SELECT current_setting(%s)", (name,)) for name in names]
    assert found == ["rvq-pool-test", "1234ms", "567ms", "30s"]
    pool.close()


def test_without_waiters_allowed_an_exhausted_pool_refuses_at_once(pool: Pool) -> None:
    with pool.connection(), pool.connection():
        assert pool.in_use == 2
        with pytest.raises(PoolExhausted, match="all 2 connections are in use"):
            pool.value("SELECT 1")
    assert pool.in_use == 0
    assert pool.value("SELECT 1") == 1


def test_a_waiter_gets_the_connection_that_comes_free(empty_database: str) -> None:
    pool = make_pool(empty_database, 1, max_waiting=1, wait_seconds=30)
    pool.open()
    taken = pool.connection()
    taken.__enter__()
    with background(pool.value, "SELECT 7") as call:
        wait_until(lambda: pool.waiting == 1, "the call waits")
        with pytest.raises(PoolExhausted, match="1 calls wait"):
            pool.value("SELECT 8")
        taken.__exit__(None, None, None)
        assert call.result(10) == 7
    pool.close()


def test_a_waiter_gives_up_after_its_time(empty_database: str) -> None:
    pool = make_pool(empty_database, 1, max_waiting=1, wait_seconds=0.01)
    pool.open()
    with pool.connection(), pytest.raises(PoolExhausted, match=r"no connection came free in 0\.01 s"):
        pool.value("SELECT 1")
    assert pool.waiting == 0
    pool.close()


def test_many_threads_share_few_connections_and_none_is_lost(empty_database: str) -> None:
    pool = make_pool(empty_database, 3, max_waiting=50, wait_seconds=30)
    pool.open()
    values: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: values.extend(pool.value("SELECT %s", (n,)) for _ in range(50)))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == sorted(n for n in range(12) for _ in range(50))
    assert pool.in_use == 0
    pool.close()


def test_a_refused_statement_is_psycopg2s_own_error_and_the_connection_stays(
    pool: Pool, observer: Connection
) -> None:
    before = backends(observer)
    with pytest.raises(psycopg2.errors.UndefinedTable):
        pool.rows("SELECT * FROM no_such_table")
    assert pool.value("SELECT 1") == 1
    assert backends(observer) == before


def test_a_connection_left_in_a_transaction_never_comes_back(pool: Pool, observer: Connection) -> None:
    before = backends(observer)
    for statement in ("BEGIN", "BEGIN; SELECT 1 / 0"):
        with contextlib.suppress(psycopg2.Error), pool.connection() as connection:
            ask(connection, statement)
    with pool.connection() as one, pool.connection() as two:
        assert one.autocommit
        assert two.autocommit
        states = f"SELECT DISTINCT state FROM pg_stat_activity WHERE {OURS}"
        wait_until(lambda: ask(observer, states) == [("idle",)], "those left in a transaction are gone")
    assert len(backends(observer)) == 2
    assert not set(before) <= set(backends(observer))


def test_connections_that_the_server_ended_are_replaced_before_anything_is_sent(
    pool: Pool, observer: Connection
) -> None:
    ask(observer, "CREATE TABLE public.marks (n int)")
    before = backends(observer)
    ask(observer, f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {OURS}")
    for _ in range(4):
        pool.rows("INSERT INTO public.marks VALUES (1)")
    assert ask(observer, "SELECT count(*) FROM public.marks") == [(4,)]
    assert len(backends(observer)) == 1, "only the one that is in use was made anew"
    assert not set(before) & set(backends(observer))


def test_a_statement_cut_off_in_the_middle_is_an_error_and_is_not_sent_again(
    pool: Pool, observer: Connection, empty_database: str
) -> None:
    ask(observer, "CREATE TABLE public.marks (n int)")
    ask(observer, "BEGIN; LOCK TABLE public.marks")
    with pool.connection() as connection:
        waiting = connection
    with background(pool.rows, "INSERT INTO public.marks VALUES (1)") as call:
        with contextlib.closing(connect(empty_database, "rvq-second-observer")) as second:
            wait_until_blocked(second, waiting)
            ask(second, f"SELECT pg_terminate_backend({waiting.info.backend_pid}, 10000)")
        with pytest.raises(DatabaseUnavailable):
            call.result(10)
    ask(observer, "COMMIT")
    assert ask(observer, "SELECT count(*) FROM public.marks") == [(0,)]
    assert pool.value("SELECT 1") == 1


def test_a_statement_that_takes_too_long_is_a_statement_timeout(empty_database: str) -> None:
    pool = make_pool(empty_database, 1, statement_timeout_ms=20)
    pool.open()
    with pytest.raises(StatementTimeout, match="57014"):
        pool.rows("SELECT pg_sleep(60)")
    assert pool.value("SELECT 1") == 1
    pool.close()


def test_a_lock_that_is_not_to_be_had_is_a_statement_timeout(
    empty_database: str, observer: Connection
) -> None:
    pool = make_pool(empty_database, 1, lock_timeout_ms=20)
    pool.open()
    ask(observer, "SELECT pg_advisory_lock(1)")
    with pytest.raises(StatementTimeout, match="55P03"):
        pool.rows("SELECT pg_advisory_lock(1)")
    pool.close()


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("40P01", TransactionConflict),
        ("40001", TransactionConflict),
        ("25006", DatabaseUnavailable),
        ("53300", DatabaseUnavailable),
        ("53100", DatabaseUnavailable),
        ("57P03", DatabaseUnavailable),
        ("08006", DatabaseUnavailable),
    ],
)
def test_what_the_caller_can_only_wait_out_is_one_of_ours(
    pool: Pool, sqlstate: str, meaning: type[Exception]
) -> None:
    with pytest.raises(meaning, match=sqlstate):
        pool.rows(f"DO $$ BEGIN RAISE EXCEPTION 'provoked' USING ERRCODE = '{sqlstate}'; END $$")


def test_a_database_that_is_away_is_asked_rarely_and_calls_in_between_fail_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = make_pool(f"postgresql://rvq:secret-word@127.0.0.1:{unused_port()}/rvq")
    tries: list[str] = []

    def counted(url: str, name: str, **options: int) -> Connection:
        tries.append(url)
        return connect(url, name, **options)

    monkeypatch.setattr("app.db.opener.connect", counted)
    monkeypatch.setattr("app.db.opener.FIRST_PAUSE", 60.0)
    for _ in range(10):
        with pytest.raises(DatabaseUnavailable) as caught:
            pool.value("SELECT 1")
        assert "secret-word" not in str(caught.value)
    assert len(tries) == 1
    assert caught.value.retry_after > 0
    assert pool.in_use == 0


def test_a_call_that_a_frozen_server_never_values_can_be_cut_off(own_cluster: Cluster) -> None:
    pool = make_pool(own_cluster.url("rvq"), 1)
    pool.open()
    with pool.connection() as connection:
        backend = connection.info.backend_pid
    os.kill(backend, signal.SIGSTOP)
    try:
        with background(pool.rows, "SELECT 1") as call:
            wait_until(lambda: pool.cut_off_overdue(0), "the call is cut off")
            with pytest.raises(DatabaseUnavailable):
                call.result(30)
    finally:
        os.kill(backend, signal.SIGCONT)
    wait_until(lambda: pool.in_use == 0, "its backend is gone")
    assert pool.value("SELECT 1") == 1
    pool.close()


def test_an_open_pool_looks_for_calls_that_outlived_their_timeout_until_it_is_closed(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.watcher.WATCH_SECONDS", 0.001)
    looks: queue.Queue[float] = queue.Queue()
    monkeypatch.setattr(Calls, "cut_off_overdue", lambda _, limit_seconds: looks.put(limit_seconds))
    before = set(threading.enumerate())
    pool = make_pool(empty_database, 1, statement_timeout_ms=2000)
    pool.open()
    assert {looks.get(timeout=30) for _ in range(3)} == {2 + OVERDUE_SECONDS}
    (watcher,) = set(threading.enumerate()) - before
    pool.close()
    watcher.join(30)
    assert not watcher.is_alive()


def test_only_calls_over_the_limit_are_cut_off(pool: Pool) -> None:
    with pool.connection() as connection:
        assert pool.cut_off_overdue(60) == 0
        assert ask(connection, "SELECT 1") == [(1,)]
        assert pool.cut_off_overdue(0) == 1
        with pytest.raises(psycopg2.OperationalError):
            ask(connection, "SELECT 1")
    assert pool.cut_off_overdue(0) == 0
    assert pool.value("SELECT 1") == 1


def test_a_closed_pool_takes_no_more_calls_and_closes_what_is_given_back(
    pool: Pool, observer: Connection
) -> None:
    with pool.connection() as connection:
        pool.close()
        assert ask(connection, "SELECT 1") == [(1,)]
    wait_until(lambda: backends(observer) == [], "all connections are closed")
    with pytest.raises(DatabaseUnavailable, match="closed"):
        pool.value("SELECT 1")
