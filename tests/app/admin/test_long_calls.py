"""Admin's calls that take long: they have a limit of their own, and an answer says what happened."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from app.admin import deliveries
from app.admin import store as admin_store
from app.db import Connection, Pool
from app.db.calls import Calls
from rvq.embedded import Cluster
from tests.app.rig import HOOK, Caller, Reply, make_caller
from tests.support.concurrency import background, wait_until, wait_until_blocked
from tests.support.database import Database

RESET = {"confirm": "reset"}


@contextlib.contextmanager
def api_over(url: str, **timeouts: int) -> Iterator[tuple[Caller, Pool]]:
    pool = Pool(url, 1, "rvq-api-test", **timeouts)
    pool.open()
    with contextlib.closing(pool):
        yield make_caller(url, pool), pool


def backend_of(pool: Pool) -> Connection:
    with pool.connection() as connection:
        return connection


def has_no_door(database: Database, pid: int) -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE pid = %s AND locktype = 'advisory'"
    return bool(database.value(waiting, (pid,)) == 0)


def test_a_reset_that_was_answered_503_empties_nothing_later(api: Caller, database: Database) -> None:
    task_id = api.create(1)["id"]
    writer = database.connect(autocommit=False)
    database.rows("SELECT rvq.hold_door()", on=writer)
    with api_over(database.url, lock_timeout_ms=300) as (impatient, pool):
        resetter = backend_of(pool)
        reply = impatient.admin("POST", "reset", RESET)
        assert reply.problem(503, "timeout").title == "The database took too long, and nothing was changed"
        assert has_no_door(database, resetter.info.backend_pid)
        writer.commit()
        assert api.read(task_id)["status"] == "queued"
        assert impatient.admin("POST", "reset", RESET).expect(200) == {"reset": True}
    assert api.partner("GET", f"/v1/tasks/{task_id}").status == 404


def test_a_reset_waits_for_a_lock_no_longer_than_any_call_since_all_writers_wait_behind_it(
    database: Database,
) -> None:
    """Every call under the pool's own bound must be answered by it: with none, this waits for the door."""
    writer, asked = database.connect(autocommit=False), threading.Event()
    database.rows("SELECT rvq.hold_door()", on=writer)
    with api_over(database.url, lock_timeout_ms=0) as (patient, pool):
        resetter = backend_of(pool)

        def reset() -> Reply:
            asked.set()
            return patient.admin("POST", "reset", RESET)

        with background(reset) as resetting:
            assert asked.wait(15)
            wait_until_blocked(database.main, resetter, writer)
            writer.commit()
            assert resetting.result(15).status == 200


@pytest.mark.parametrize(("method", "path"), [("GET", "audit"), ("POST", "audit/repair")])
def test_an_audit_may_take_longer_than_other_calls(
    database: Database, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    """It is held up until the pool has looked for overdue calls again and again."""
    monkeypatch.setattr("app.db.calls.OVERDUE_SECONDS", 0.0)
    monkeypatch.setattr("app.db.watcher.WATCH_SECONDS", 0.05)
    looks = threading.Semaphore(0)
    look = Calls.cut_off_overdue

    def counted(calls: Calls, limit_seconds: float) -> int:
        looks.release()
        return look(calls, limit_seconds)

    monkeypatch.setattr(Calls, "cut_off_overdue", counted)
    holder = database.connect(autocommit=False)
    database.rows("LOCK TABLE rvq.counters IN ACCESS EXCLUSIVE MODE", on=holder)
    with api_over(database.url, statement_timeout_ms=100, lock_timeout_ms=0) as (api, pool):
        auditor = backend_of(pool)
        with background(api.admin, method, path) as audit:
            wait_until_blocked(database.main, auditor, holder)
            for _ in range(20):
                assert looks.acquire(timeout=15)
            assert not audit.done()
            holder.commit()
            assert audit.result(15).status == 200
        api.partner("GET", "/v1/tasks").expect(200)


def test_an_audit_beyond_its_own_limit_is_given_up_on_the_server(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_store, "AUDIT_MS", 200)
    holder = database.connect(autocommit=False)
    database.rows("LOCK TABLE rvq.counters IN ACCESS EXCLUSIVE MODE", on=holder)
    with api_over(database.url, lock_timeout_ms=0) as (api, pool):
        auditor = backend_of(pool)
        for method, path in (("GET", "audit"), ("POST", "audit/repair")):
            api.admin(method, path).problem(503, "timeout")
            assert has_no_door(database, auditor.info.backend_pid)
    holder.commit()


def cut_off_when_sent(pool: Pool, backend: int, call: Future[Reply]) -> Reply:
    """The server is frozen: the call can only be cut off, and nobody knows what becomes of it."""
    wait_until(lambda: pool.cut_off_overdue(-1000), "the call is cut off, long limit or not")
    reply = call.result(30)
    os.kill(backend, signal.SIGCONT)
    return reply


@pytest.mark.parametrize("path", ["reset", "tasks/{}/cancel", "tasks/{}/retry", "queues/q", "audit/repair"])
def test_a_change_that_got_no_answer_is_told_as_unknown(own_cluster: Cluster, path: str) -> None:
    bodies = {"reset": RESET, "queues/q": {"paused": True}}
    with api_over(own_cluster.url("rvq")) as (api, pool):
        pool.rows("SELECT rvq.create_partitions(1)")
        task_id = api.create(1)["id"]
        backend = backend_of(pool).info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        with background(api.admin, "POST", path.format(task_id), bodies.get(path)) as call:
            cut_off_when_sent(pool, backend, call).problem(503, "outcome_unknown")


def test_a_read_that_got_no_answer_is_told_as_that(own_cluster: Cluster) -> None:
    with api_over(own_cluster.url("rvq")) as (api, pool):
        backend = backend_of(pool).info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        with background(api.admin, "GET", "audit") as call:
            cut_off_when_sent(pool, backend, call).problem(503, "database_unavailable")


def test_what_was_done_is_told_though_it_can_not_be_read_afterwards(api: Caller, database: Database) -> None:
    task_id = api.create(1, queue="text")["id"]
    reader = database.connect(autocommit=False)
    with api_over(database.url, lock_timeout_ms=100) as (impatient, _):
        database.rows("LOCK TABLE rvq.counters IN ACCESS EXCLUSIVE MODE", on=reader)
        told = impatient.admin("POST", "queues/text", {"paused": True}).problem(503, "outcome_unknown")
        assert told.detail == "the queue was paused, but could not be read afterwards"
        reader.rollback()
        assert api.admin("GET", "queues/text").expect(200)["paused"] is True
        assert api.read(task_id)["status"] == "queued"


def dead_deliveries(api: Caller, database: Database, count: int) -> None:
    for _ in range(count):
        api.finish(1, webhook_url=HOOK)
    database.rows(
        "SELECT rvq.kill_deliveries(ARRAY(SELECT id FROM rvq.due_deliveries), 'gone', 'x', rvq.clock())"
    )


def test_many_redeliveries_that_stop_half_way_tell_what_was_done(
    api: Caller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "BATCH", 2)
    dead_deliveries(api, database, 6)
    first = database.value("SELECT min(id) FROM rvq.events")
    holder = database.connect(autocommit=False)
    # The insert of the oldest one waits for this row, which is of the last batch.
    database.rows(
        "INSERT INTO rvq.due_deliveries (id, due_at, queue, host, url) VALUES (%s, now(), 'q', 'h', 'u')",
        (first,),
        on=holder,
    )
    with api_over(database.url, lock_timeout_ms=100) as (impatient, _):
        done = impatient.admin("POST", "deliveries/redeliver", {}).expect(200)
    holder.rollback()
    assert done == {"matched": 4, "redelivered": 4, "dry_run": False, "complete": False}
    done = api.admin("POST", "deliveries/redeliver", {}).expect(200)
    assert done == {"matched": 2, "redelivered": 2, "dry_run": False, "complete": True}


def test_many_redeliveries_stop_when_their_time_is_up(
    api: Caller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "BATCH", 2)
    monkeypatch.setattr(deliveries, "BULK_SECONDS", 0.0)
    dead_deliveries(api, database, 3)
    done = api.admin("POST", "deliveries/redeliver", {}).expect(200)
    assert done == {"matched": 0, "redelivered": 0, "dry_run": False, "complete": False}
