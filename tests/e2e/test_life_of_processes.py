"""Reload, stop and reset while the work goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rvq.local.processes import Process
from tests.dispatcher.receiver import Receiver
from tests.e2e.load import partners
from tests.e2e.rig import Rvq, running
from tests.support.concurrency import wait_until
from tests.support.database import Database

DOOR = "SELECT pg_advisory_xact_lock(1, 0)"


def children(process: Process) -> set[int]:
    """The processes of Gunicorn that serve."""
    file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return {int(word) for word in file.read_text().split()}


def is_over(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_all_over(pids: set[int]) -> None:
    wait_until(lambda: all(is_over(pid) for pid in pids), "the old processes end", 60)


def receiver_has(receiver: Receiver, count: int) -> None:
    wait_until(lambda: len(receiver.ids()) >= count, f"{count} webhooks", 60)


@pytest.fixture
def api(database: Database, receiver: Receiver) -> Iterator[Rvq]:
    """An API without a dispatcher."""
    with running(database.url, receiver.host) as rvq:
        yield rvq


@pytest.mark.parametrize("kept", [False, True], ids=["new connections", "kept connections"])
def test_a_reload_under_load_loses_no_request(api: Rvq, database: Database, kept: bool) -> None:
    with partners(api, 4, kept=kept) as load:
        for _ in range(3):
            before, created = children(api.api), load.created
            api.api.signal(signal.SIGHUP)
            wait_all_over(before)
            load.wait_for(created + 20)
    assert load.problems == []
    assert set(load.statuses) == {201}
    assert database.value("SELECT count(*) FROM rvq.tasks") == load.created
    assert load.created == len(set(load.tasks.values()))


def test_a_stop_answers_every_request_under_way(api: Rvq, database: Database) -> None:
    """They wait in the database when the signal comes: the door is shut."""
    ids = [api.create([n]) for n in range(4)]
    holder = database.connect(autocommit=False)
    with ThreadPoolExecutor(4) as executor:
        database.rows(DOOR, on=holder)
        calls = [executor.submit(api.call, "POST", f"/v1/tasks/{task_id}/cancel") for task_id in ids]
        wait_until(lambda: waiting(database) >= 4, "four requests wait")
        api.api.signal(signal.SIGTERM)
        holder.rollback()
        assert [call.result(30).status for call in calls] == [200] * 4
    assert api.api.wait(30) == 0
    assert database.value("SELECT count(*) FROM rvq.events") == 4


def waiting(database: Database) -> int:
    sql = """SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'
               AND application_name = 'rvq-api'"""
    return int(database.value(sql))


def test_a_stopped_dispatcher_records_what_is_under_way_and_spends_no_attempt_on_the_rest(
    api: Rvq, database: Database, receiver: Receiver
) -> None:
    receiver.hold.clear()
    ids = [api.create([n], webhook_url=receiver.url(), queue="stop") for n in range(40)]
    for task_id in ids:
        api.call("POST", f"/v1/tasks/{task_id}/cancel").expect(200)
    dispatcher = api.start_dispatcher()
    wait_until(lambda: receiver.ids(), "one is under way, and the others wait", 60)
    dispatcher.signal(signal.SIGTERM)
    receiver.hold.set()
    assert dispatcher.wait(40) == 0
    sent = len(receiver.ids())
    spent = database.rows("SELECT outcome, count(*) FROM rvq.delivery_attempts GROUP BY 1")
    left = database.row(
        "SELECT count(*), coalesce(sum(attempt), 0), count(lease_token) FROM rvq.due_deliveries"
    )
    assert spent == [("delivered", sent)]
    assert left == (40 - sent, 0, 0)
    api.start_dispatcher()
    receiver_has(receiver, 40)
    assert sorted(receiver.ids()) == sorted({one["id"] for one in api.pages("/v1/events")})


def test_a_stopped_worker_finishes_what_runs_and_gives_back_the_rest_uncharged(
    api: Rvq, database: Database
) -> None:
    task_id = api.create(list(range(30)))
    worker = api.start_worker("Held")
    wait_until(lambda: len(list(api.folder.glob("started-*"))) == 4, "the worker is busy", 60)
    worker.signal(signal.SIGTERM)
    (api.folder / "go").touch()
    assert worker.wait(40) == 0
    states = [(one["status"], one["attempt"]) for one in api.sub_tasks(task_id)]
    assert set(states) == {("succeeded", 1), ("queued", 0)}
    assert states.count(("succeeded", 1)) == len(list(api.folder.glob("started-*")))


def test_a_reset_under_traffic_leaves_nothing_and_nothing_wrong(
    rvq: Rvq, database: Database, receiver: Receiver
) -> None:
    rvq.start_worker("Echo")
    orphan = rvq.create([1], queue="orphan")
    (lease,) = rvq.worker("claim", {"worker_id": "w", "queues": ["orphan"]})["sub_tasks"]
    named = {"id": lease["id"], "lease_token": lease["lease_token"]}
    with partners(rvq, 3, patient=True, webhook_url=receiver.url()) as load:
        for _ in range(5):
            created, arrived = load.created, len(receiver.ids())
            load.wait_for(created + 10)
            receiver_has(receiver, arrived + 1)
            rvq.admin("POST", "reset", {"confirm": "reset"})
    assert set(load.statuses) <= {200, 201}
    rvq.call("GET", f"/v1/tasks/{orphan}").expect(404)
    reported = rvq.worker("complete", {"worker_id": "w", "results": [{**named, "status": "succeeded"}]})
    beaten = rvq.worker("heartbeat", {"worker_id": "w", "leases": [named]})
    assert [one["outcome"] for one in reported["results"] + beaten["results"]] == ["unknown", "unknown"]
    wait_until(lambda: is_drained(rvq), "what came after the last reset is done", 60)
    rvq.admin("POST", "reset", {"confirm": "reset"})
    stats = rvq.call("GET", "/v1/stats").expect(200)
    assert (set(stats["tasks"].values()), set(stats["deliveries"].values())) == ({0}, {0})
    assert rvq.pages("/v1/events") == []


def is_drained(rvq: Rvq) -> bool:
    stats = rvq.call("GET", "/v1/stats").expect(200)
    open_ones = (stats["tasks"]["queued"], stats["tasks"]["running"], stats["deliveries"]["pending"])
    return open_ones == (0, 0, 0)
