"""One thing is killed or goes away, and comes back: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import os
import signal

import pytest

from rvq.embedded import Cluster
from tests.dispatcher.receiver import Receiver
from tests.e2e.load import partners
from tests.e2e.rig import Rvq, running
from tests.e2e.test_life_of_processes import is_drained, receiver_has
from tests.support.concurrency import wait_until
from tests.support.database import Database
from tests.support.server import VERSION


def started(rvq: Rvq) -> list[str]:
    return sorted(file.name for file in rvq.folder.glob("started-*"))


def test_a_killed_workers_sub_tasks_are_done_by_another(rvq: Rvq, receiver: Receiver) -> None:
    task_id = rvq.create(list(range(8)), webhook_url=receiver.url())
    worker = rvq.start_worker("Mortal")
    wait_until(lambda: len(started(rvq)) == 4, "it holds work", 60)
    held = {int(name.split("-")[1]) for name in started(rvq)}
    worker.kill()
    (rvq.folder / "spare").touch()
    rvq.start_worker("Mortal")
    assert rvq.wait_ended(task_id)["status"] == "succeeded"
    attempts = {one["index"]: one["result"]["attempt"] for one in rvq.sub_tasks(task_id)}
    assert {attempts[index] for index in held} == {2}
    receiver_has(receiver, 1)
    assert json.loads(receiver.received[0].body)["data"]["counts"]["succeeded"] == 8


def test_results_that_workers_hold_while_the_api_is_dead_arrive_once(rvq: Rvq, database: Database) -> None:
    task_id = rvq.create(list(range(8)))
    for _ in range(2):
        rvq.start_worker("Held")
    wait_until(lambda: len(started(rvq)) == 8, "both workers are busy", 60)
    rvq.kill_api()
    (rvq.folder / "go").touch()
    wait_until(lambda: held_results(rvq) == 2, "both have results that nobody takes", 60)
    rvq.start_api()
    assert rvq.wait_ended(task_id)["status"] == "succeeded"
    found = [(one["status"], one["result"]) for one in rvq.sub_tasks(task_id)]
    assert found == [("succeeded", {"index": index, "attempt": 1}) for index in range(8)]
    assert database.value("SELECT count(*) FROM rvq.outcomes") == 8


def test_until_empty_leaves_nothing_behind_that_is_only_locked_for_a_moment(
    rvq: Rvq, database: Database
) -> None:
    task_id = rvq.create([1, 2, 3])
    with database.connect(autocommit=False) as holder, holder.cursor() as cursor:
        cursor.execute("SELECT id FROM rvq.open_sub_tasks FOR UPDATE")
        worker = rvq.start_worker("Echo", "--until-empty")
        wait_until(lambda: empty_claims(rvq) >= 2, "claims have come back empty", 60)
        holder.rollback()
    assert worker.wait(60) == 0
    assert rvq.task(task_id)["status"] == "succeeded"


def empty_claims(rvq: Rvq) -> int:
    """How many claims the API has answered; none of them had anything."""
    metrics = rvq.call("GET", "/metrics", audience="ADMIN").body.decode()
    lines = [line for line in metrics.splitlines() if line.startswith("rvq_http_request_seconds_count")]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if "claim" in line)


def held_results(rvq: Rvq) -> int:
    """How many workers say that they could not deliver."""
    logs = [file.read_text() for file in rvq.folder.glob("worker-*.log")]
    return sum("complete failed" in log for log in logs)


def test_a_killed_dispatchers_delivery_is_sent_again_under_the_same_webhook_id(
    rvq: Rvq, database: Database, receiver: Receiver
) -> None:
    receiver.hold.clear()
    task_id = rvq.create([1], webhook_url=receiver.url())
    rvq.call("POST", f"/v1/tasks/{task_id}/cancel").expect(200)
    receiver_has(receiver, 1)
    rvq.dispatcher.kill()
    receiver.hold.set()
    database.move_clock(60)  # its lease has run out, as the next one's sessions see it
    rvq.start_dispatcher()
    receiver_has(receiver, 2)
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)
    for one in (first, second):
        one.verify(rvq.settings["APP_WEBHOOK_SECRET"])
    wait_until(lambda: attempts(rvq, task_id) == ["unknown", "delivered"], "both attempts are on record", 30)


def attempts(rvq: Rvq, task_id: str) -> list[str]:
    (delivery,) = rvq.pages(f"/v1/tasks/{task_id}/deliveries")
    return [attempt["outcome"] for attempt in delivery["attempts"]]


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_all_heals_by_itself_when_postgresql_is_restarted_under_load(
    own_cluster: Cluster, receiver: Receiver, how: str
) -> None:
    server = own_cluster.running
    assert server
    same = Cluster(own_cluster.folder, version=VERSION, settings=own_cluster.settings, port=server.port)
    with running(own_cluster.url("rvq"), receiver.host) as rvq:
        rvq.start_dispatcher()
        workers = [rvq.start_worker("Echo") for _ in range(2)]
        with partners(rvq, 3, patient=True, webhook_url=receiver.url()) as load:
            load.wait_for(20)
            if how == "killed":
                os.kill(server.pid, signal.SIGKILL)
            else:
                same.stop()
            wait_until(lambda: rvq.call("GET", "/readyz").status == 503, "the API says that it is not ready")
            assert rvq.call("GET", "/healthz").status == 200
            same.start()
            load.wait_for(load.created + 20)
        wait_until(lambda: is_drained(rvq), "everything is done", 60)
        assert set(load.statuses) <= {200, 201, 503}
        assert [process.returncode for process in (rvq.api, rvq.dispatcher, *workers)] == [None] * 4
        tasks = rvq.pages("/v1/tasks")
        assert {task["id"] for task in tasks} == set(load.tasks.values())
        assert {task["status"] for task in tasks} == {"succeeded"}
        assert {one["id"] for one in rvq.pages("/v1/events")} == set(receiver.ids())
        assert rvq.admin("GET", "audit")["drift"] == 0
