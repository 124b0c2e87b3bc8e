"""Commits that wait for a standby that is away: budgets hold, answers are true, and all heals by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from app.db import Connection, DatabaseError, DatabaseNotStoring, Pool
from app.db.errors import OutcomeUnknown
from app.db.write_check import WriteCheck
from rvq.embedded import Cluster
from tests.app.rig import Caller, lease_of, make_caller, succeeded
from tests.support.concurrency import background, wait_until
from tests.support.standby import standby_of

SIZE = 3
TASK = {"sub_tasks": [{"payload": 1}]}
KEY = {"Idempotency-Key": "k"}
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'rvq-stalled'"
WRITE = "SELECT pg_logical_emit_message(true, 'test', '')"


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.calls.CANCEL_SECONDS", 0.2)
    monkeypatch.setattr("app.db.watcher.WATCH_SECONDS", 0.05)
    monkeypatch.setattr("app.db.pool.PROBE_MS", 300)
    monkeypatch.setattr("app.db.write_check.FRESH_SECONDS", 0.0)


@pytest.fixture
def observer(own_cluster: Cluster) -> Iterator[Connection]:
    connection = psycopg2.connect(own_cluster.url("rvq"))
    connection.autocommit = True
    with contextlib.closing(connection):
        ask(connection, "SET synchronous_commit = local")
        ask(connection, "SELECT rvq.create_partitions(1)")
        yield connection


@contextlib.contextmanager
def pool_on(cluster: Cluster, **options: int) -> Iterator[Pool]:
    settings = {"max_waiting": 50, "wait_seconds": 15, "statement_timeout_ms": 1000, **options}
    pool = Pool(cluster.url("rvq"), SIZE, "rvq-stalled", **settings)
    pool.open()
    with contextlib.closing(pool):
        yield pool


def ask(connection: Connection, statement: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def wait_for_standbys(observer: Connection, names: str) -> None:
    """Let commits wait for these standbys ("" for none) from now on."""
    ask(observer, f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    ask(observer, "SELECT pg_reload_conf()")
    wait_until(lambda: ask(observer, "SHOW synchronous_standby_names") == [(names,)], "it is in force")
    if names == "ghost":
        wait_until(lambda: commits_wait(observer), "commits wait, since the checkpointer knows of it", 60)


def commits_wait(observer: Connection) -> bool:
    """Whether a commit waits for a standby; it is cancelled then."""
    connection = psycopg2.connect(observer.dsn, password=observer.info.password)
    connection.autocommit = True
    waits = f"pid = {connection.info.backend_pid} AND wait_event = 'SyncRep'"
    cancel = f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {waits}"
    with contextlib.closing(connection), background(ask, connection, WRITE) as commit:
        waited: list[tuple[object, ...]] = []
        while not (waited or commit.done()):
            waited = ask(observer, cancel)
        return bool(waited)


def backends(observer: Connection) -> int:
    ((number,),) = ask(
        observer, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rvq-stalled'"
    )
    assert isinstance(number, int)
    return number


def stored_tasks(observer: Connection) -> list[tuple[object, ...]]:
    return ask(observer, "SELECT id FROM rvq.tasks")


def is_ready(api: Caller) -> bool:
    return api.call("GET", "/readyz").status == 200


def outcome_of(pool: Pool, sql: str) -> str:
    try:
        pool.change_rows(sql)
    except DatabaseError as error:
        return type(error).__name__
    return "stored"


def test_there_are_never_more_backends_than_places(own_cluster: Cluster, observer: Connection) -> None:
    with pool_on(own_cluster) as pool, ThreadPoolExecutor(2 * SIZE) as threads:
        wait_for_standbys(observer, "ghost")
        most, outcomes = 0, set()
        for _ in range(3):
            calls = [threads.submit(outcome_of, pool, WRITE) for _ in range(2 * SIZE)]
            calls += [threads.submit(pool.rows, "SELECT 1") for _ in range(2 * SIZE)]  # type: ignore[arg-type]
            while not all(call.done() for call in calls):
                most = max(most, backends(observer))
            outcomes |= {call.result() for call in calls[: 2 * SIZE]}
        assert most == SIZE
        assert outcomes == {"OutcomeUnknown", "DatabaseNotStoring"}
        wait_for_standbys(observer, "")
        wait_until(lambda: outcome_of(pool, WRITE) == "stored", "writes are taken again")
        assert ask(observer, WAITING) == []
        assert pool.in_use == 0
    wait_until(lambda: backends(observer) == 0, "no connection is left")


def test_a_create_that_no_standby_confirmed_is_unknown_and_the_key_leads_to_its_task(
    own_cluster: Cluster, observer: Connection
) -> None:
    with pool_on(own_cluster) as pool:
        api = make_caller(own_cluster.url("rvq"), pool)
        wait_for_standbys(observer, "ghost")
        problem = api.partner("POST", "/v1/tasks", TASK, headers=KEY).problem(503, "outcome_unknown")
        assert "Idempotency-Key" in problem.detail
        ((stored,),) = stored_tasks(observer)
        # What follows is refused before anything is done, and what is there can be read.
        api.partner("POST", "/v1/tasks", TASK).problem(503, "database_unavailable")
        assert stored_tasks(observer) == [(stored,)]
        assert len(api.partner("GET", "/v1/tasks").expect(200)["items"]) == 1
        assert "standby" in api.call("GET", "/readyz").problem(503, "not_ready").detail
        wait_for_standbys(observer, "")
        wait_until(lambda: is_ready(api), "it is ready again")
        again = api.partner("POST", "/v1/tasks", TASK, headers=KEY)
        assert again.expect(200)["status"] == "queued"
        assert again.headers["Idempotency-Replayed"] == "true"
        assert stored_tasks(observer) == [(stored,)]


def test_a_replay_is_not_answered_before_a_standby_has_its_task(
    own_cluster: Cluster, observer: Connection
) -> None:
    """The second process knows nothing of the first one's trouble."""
    with pool_on(own_cluster) as pool, pool_on(own_cluster) as other_pool:
        url = own_cluster.url("rvq")
        wait_for_standbys(observer, "ghost")
        for one in (pool, other_pool):
            reply = make_caller(url, one).partner("POST", "/v1/tasks", TASK, headers=KEY)
            reply.problem(503, "outcome_unknown")
        assert len(stored_tasks(observer)) == 1


def test_a_claim_is_answered_with_what_it_leased_and_a_complete_is_unknown_until_it_is_repeated(
    own_cluster: Cluster, observer: Connection
) -> None:
    with contextlib.ExitStack() as stack:
        apis = [
            make_caller(own_cluster.url("rvq"), stack.enter_context(pool_on(own_cluster))) for _ in range(3)
        ]
        apis[0].create(1)
        wait_for_standbys(observer, "ghost")
        (claimed,) = apis[0].claim()
        report = {"worker_id": "w1", "results": [succeeded(claimed)]}
        apis[1].worker("complete", report).problem(503, "outcome_unknown")
        beat = {"worker_id": "w1", "leases": [lease_of(claimed)]}
        assert apis[2].worker("heartbeat", beat).expect(200)["results"][0]["outcome"] == "stale"
        apis[1].worker("claim", {"worker_id": "w1"}).problem(503, "database_unavailable")
        wait_for_standbys(observer, "")
        wait_until(lambda: apis[1].worker("complete", report).status == 200, "it is taken again")
        assert apis[1].complete([succeeded(claimed)]) == ["duplicate"]


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_wait_that_an_operator_ends_is_unknown_too(
    own_cluster: Cluster, observer: Connection, how: str
) -> None:
    with pool_on(own_cluster, statement_timeout_ms=60_000) as pool:
        wait_for_standbys(observer, "ghost")
        with background(pool.change_rows, WRITE) as call:
            wait_until(lambda: ask(observer, WAITING), "its commit waits")
            ask(observer, f"SELECT {how}(pid) FROM ({WAITING}) AS waiting")
            with pytest.raises(OutcomeUnknown):
                call.result(15)


def test_a_standby_that_comes_back_brings_everything_back(own_cluster: Cluster, observer: Connection) -> None:
    with standby_of(own_cluster) as standby, pool_on(own_cluster) as pool:
        wait_for_standbys(observer, "*")
        assert outcome_of(pool, WRITE) == "stored"
        standby.stop()
        wait_until(lambda: commits_wait(observer), "commits wait", 60)
        assert outcome_of(pool, WRITE) == "OutcomeUnknown"
        assert outcome_of(pool, WRITE) == "DatabaseNotStoring"
        standby.start()
        wait_until(lambda: outcome_of(pool, WRITE) == "stored", "writes are taken again", 30)
        pool.require_commits()
        assert pool.in_use == 0


def test_readiness_tells_of_a_stall_without_any_traffic_and_makes_one_commit_at_a_time(
    own_cluster: Cluster, observer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.write_check.PATIENCE_SECONDS", 0.05)
    with pool_on(own_cluster) as pool, ThreadPoolExecutor(8) as threads:
        api = make_caller(own_cluster.url("rvq"), pool)
        assert is_ready(api)
        wait_for_standbys(observer, "ghost")
        most = 0
        asked = [threads.submit(is_ready, api) for _ in range(40)]
        while not all(one.done() for one in asked):
            most = max(most, len(ask(observer, WAITING)))
        assert most <= 1
        assert not any(one.result() for one in asked)
        wait_for_standbys(observer, "")
        wait_until(lambda: is_ready(api), "it is ready again")


def test_a_pool_that_is_closed_leaves_no_commit_behind_that_waits(
    own_cluster: Cluster, observer: Connection
) -> None:
    with pool_on(own_cluster, statement_timeout_ms=60_000) as pool:
        wait_for_standbys(observer, "ghost")
        with background(outcome_of, pool, WRITE) as call:
            wait_until(lambda: ask(observer, WAITING), "its commit waits")
            pool.close()
            assert call.result(15) == "OutcomeUnknown"
    wait_until(lambda: backends(observer) == 0, "no connection is left")


@pytest.mark.parametrize("code", ["53100", "58030"])
def test_after_a_write_that_the_disk_refused_writes_wait_for_a_commit_that_goes_through(
    own_cluster: Cluster, observer: Connection, code: str
) -> None:
    wrong = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$"
    with pool_on(own_cluster) as pool:
        with pytest.raises(DatabaseNotStoring, match=code):
            pool.rows(wrong)
        wait_until(lambda: outcome_of(pool, WRITE) == "stored", "writes are taken again")


@pytest.mark.parametrize("tcp", [True, False])
def test_the_place_of_a_frozen_backend_stays_taken_until_that_is_gone(
    own_cluster: Cluster, observer: Connection, monkeypatch: pytest.MonkeyPatch, tcp: bool
) -> None:
    monkeypatch.setattr("app.db.calls.OVERDUE_SECONDS", 0.4)
    pool = Pool(own_cluster.url("rvq", tcp=tcp), 1, "rvq-stalled", statement_timeout_ms=100)
    with contextlib.closing(pool):
        pool.open()
        with pool.connection() as connection:
            backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseError, match="no answer"):
                pool.rows("SELECT 1")
            looked = threading.Event()
            monkeypatch.setattr(WriteCheck, "try_again", lambda _: looked.set())
            assert looked.wait(15)
            with pytest.raises(DatabaseError, match="all 1 connections"):
                pool.rows("SELECT 1")
            assert backends(observer) == 1
        finally:
            os.kill(backend, signal.SIGCONT)
        wait_until(lambda: pool.in_use == 0, "the place is free")
        assert pool.value("SELECT 1") == 1
        assert backends(observer) == 1
