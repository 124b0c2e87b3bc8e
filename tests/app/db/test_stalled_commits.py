"""A commit that waits for a synchronous standby which is away is bounded, told, and over when it is back."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from app.db import Pool
from app.db.migrations import migrate
from rvq.embedded import Cluster
from tests.app.rig import Caller, Reply, make_caller
from tests.support.concurrency import wait_until

SIZE = 4
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rvq-api-test'"
STALLED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Observer:
    """A session that asks, and moves the standby away and back."""

    def __init__(self, cluster: Cluster) -> None:
        self._connection = psycopg2.connect(cluster.url())
        self._connection.autocommit = True
        self._lock = threading.Lock()

    def ask(self, sql: str) -> int:
        with self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql)
            row = cursor.fetchone()
            return int(row[0]) if row else 0

    def require_standby(self, name: str) -> None:
        with self._lock, self._connection.cursor() as cursor:
            cursor.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
            cursor.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self._is_told(name), "the server has read it")

    def _is_told(self, name: str) -> bool:
        with self._lock, self._connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_standby_names")
            return cursor.fetchone() == (name,)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def observer(own_cluster: Cluster) -> Iterator[Observer]:
    observer = Observer(own_cluster)
    yield observer
    observer.close()


@pytest.fixture
def api(own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """An API with a pool of SIZE that gives calls up after half a second."""
    for name, seconds in (("OVERDUE_SECONDS", 0.0), ("WATCH_SECONDS", 0.05)):
        monkeypatch.setattr(f"app.db.pool.{name}", seconds)
    url = own_cluster.url("rvq")
    migrate(url)
    pool = Pool(url, SIZE, "rvq-api-test", max_waiting=100, wait_seconds=0.2, statement_timeout_ms=500)
    pool.open()
    pool.rows("SELECT rvq.create_partitions(1)")
    with contextlib.closing(pool):
        yield make_caller(url, pool)


def create(api: Caller, key: str) -> Reply:
    body = {"sub_tasks": [{"payload": key}]}
    return api.partner("POST", "/v1/tasks", body, headers={"Idempotency-Key": key})


def test_a_stalled_standby_takes_no_more_connections_and_is_told_and_heals(
    api: Caller, observer: Observer
) -> None:
    create(api, "before").expect(201)
    assert api.call("GET", "/readyz").status == 200
    observer.require_standby("ghost")
    most = 0
    with ThreadPoolExecutor(12) as threads:
        calls = [threads.submit(create, api, f"key-{n}") for n in range(60)]
        while not all(call.done() for call in calls):
            most = max(most, observer.ask(BACKENDS))
    assert most <= SIZE
    told = Counter(call.result().problem(503).code for call in calls)
    assert set(told) <= {"outcome_unknown", "over_budget"}
    assert told["outcome_unknown"] > 0
    wait_until(lambda: "a commit has waited" in not_ready(api) or "no commit" in not_ready(api), "it is told")
    observer.require_standby("")
    wait_until(lambda: api.call("GET", "/readyz").status == 200, "it is ready again")
    again = [create(api, f"key-{n}") for n in range(60)]
    assert {reply.status for reply in again} <= {200, 201}
    assert len({reply.json["id"] for reply in again}) == 60, "no key has made two tasks"
    assert observer.ask(BACKENDS) <= SIZE


def not_ready(api: Caller) -> str:
    return api.call("GET", "/readyz").problem(503).detail


def test_an_idle_api_is_not_ready_while_commits_wait(api: Caller, observer: Observer) -> None:
    assert api.call("GET", "/readyz").status == 200
    observer.require_standby("ghost")
    wait_until(lambda: api.call("GET", "/readyz").status == 503, "no commit goes through")
    for _ in range(20):
        api.call("GET", "/readyz").problem(503)
        assert observer.ask(STALLED) <= 1, "one probe at a time"
    assert api.partner("GET", "/v1/stats").status == 200, "reads go on"
    observer.require_standby("")
    wait_until(lambda: api.call("GET", "/readyz").status == 200, "it is ready again")


def test_a_commit_that_an_operator_cancels_is_not_called_stored(api: Caller, observer: Observer) -> None:
    """The server calls it a success, with a warning: it is stored here, and lost with this server."""
    observer.require_standby("ghost")
    cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(create, api, "key")
        wait_until(lambda: observer.ask(cancel), "it waits, and is cancelled")
        call.result().problem(503, "outcome_unknown")
    observer.require_standby("")
    create(api, "key").expect(200)
