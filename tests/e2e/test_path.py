"""The whole path: from POST to a verified webhook, the bytes that went in, and what ends a task."""

from __future__ import annotations

import http.client
import json
import socket
import threading

import msgspec
import pytest

from tests.dispatcher.receiver import Received, Receiver
from tests.e2e.rig import Rvq
from tests.support.concurrency import wait_until
from tests.support.database import Database

# Legal JSON that any decoding and encoding would change.
ODD = [
    rb'{"b":1.10,"a":1e2,"b":9007199254740993}',
    rb"[ 0.1000000000000000055511151231257827 ,-0, 1E400 ]",
    b'{"\xc3\xa9":"\\u00e9","x":"\\/","y":"\\ud83d\\ude00"}',
    b'"  \xe2\x80\xa8 spaces\\tstay  "',
    b"null",
    b'{ "nested" : [ [ ] , { } ] }',
]
METADATA = b'{ "order":1.10, "z":9007199254740993,"a":"\\u00e9", "z":1e2 }'


def webhooks(receiver: Receiver, rvq: Rvq, count: int = 1) -> list[Received]:
    """Wait for that many, each with a signature that an independent library accepts."""
    received = arrived(receiver, count)
    for one in received:
        one.verify(rvq.settings["APP_WEBHOOK_SECRET"])
    return received


def arrived(receiver: Receiver, count: int) -> list[Received]:
    wait_until(lambda: len(receiver.ids()) >= count, f"{count} webhooks", 60)
    return receiver.received[:]


def test_a_task_goes_from_post_to_a_verified_webhook(rvq: Rvq, receiver: Receiver) -> None:
    for _ in range(2):
        rvq.start_worker("Echo")
    payloads = [{"number": number} for number in range(200)]
    task_id = rvq.create(payloads, webhook_url=receiver.url(), metadata={"order": 4711})
    (webhook,) = webhooks(receiver, rvq)
    task = rvq.task(task_id)
    event = json.loads(webhook.body)
    assert task["status"] == "succeeded"
    assert [sub_task["result"] for sub_task in rvq.sub_tasks(task_id)] == payloads
    assert event["type"] == "task.succeeded"
    shared = ("status", "counts", "metadata", "created_at", "finished_at")
    told = {name: event["data"][name] for name in shared if name != "counts"}
    assert told == {name: task[name] for name in shared if name != "counts"}
    assert {name: task["counts"][name] for name in event["data"]["counts"]} == event["data"]["counts"]
    assert event["timestamp"] == task["finished_at"]
    feed = rvq.pages("/v1/events")
    assert [(one["id"], one["data"]["task_id"]) for one in feed] == [(webhook.id, task_id)]
    settled = f"/v1/tasks/{task_id}/deliveries"
    wait_until(lambda: rvq.pages(settled)[0]["status"] == "delivered", "the delivery is recorded")
    (delivery,) = rvq.pages(settled)
    assert [attempt["outcome"] for attempt in delivery["attempts"]] == ["delivered"]


def test_payload_result_and_metadata_are_the_same_bytes_everywhere(rvq: Rvq, receiver: Receiver) -> None:
    sub_tasks = b",".join(b'{ "payload" : %s }' % payload for payload in ODD)
    body = b'{"queue":"raw","webhook_url":"%s","metadata":%s,"sub_tasks":[%s]}' % (
        receiver.url().encode(),
        METADATA,
        sub_tasks,
    )
    created = rvq.call("POST", "/v1/tasks", body)
    task_id = created.expect(201)["id"]
    claim = {"worker_id": "raw", "queues": ["raw"], "limit": 100}
    claimed = rvq.call("POST", "/v1/sub_tasks/claim", claim, audience="WORKER")
    leases = raw_items(claimed.body, "sub_tasks")
    assert [lease["payload"] for lease in leases] == ODD
    reports = b",".join(
        b'{"id":%s,"lease_token":%s,"status":"succeeded","result": %s }'
        % (one["id"], one["lease_token"], result)
        for one, result in zip(leases, reversed(ODD), strict=True)
    )
    rvq.worker("complete", b'{"worker_id":"raw","results":[%s]}' % reports)
    listed = raw_items(rvq.call("GET", f"/v1/tasks/{task_id}/sub_tasks").body, "items")
    assert [one["payload"] for one in listed] == ODD
    assert [one["result"] for one in listed] == list(reversed(ODD))
    (webhook,) = webhooks(receiver, rvq)
    (listed_task,) = raw_items(rvq.call("GET", "/v1/tasks").body, "items")
    shown = [created.body, rvq.call("GET", f"/v1/tasks/{task_id}").body]
    assert [raw(body)["metadata"] for body in shown] == [METADATA, METADATA]
    assert listed_task["metadata"] == METADATA
    assert raw(raw(webhook.body)["data"])["metadata"] == METADATA


def test_the_sdk_hands_on_the_bytes_as_they_are(rvq: Rvq) -> None:
    rvq.start_worker("Echo")
    sub_tasks = b",".join(b'{"payload":%s}' % payload for payload in ODD)
    body = b'{"queue":"e2e","sub_tasks":[%s]}' % sub_tasks
    task_id = rvq.call("POST", "/v1/tasks", body).expect(201)["id"]
    rvq.wait_ended(task_id)
    listed = raw_items(rvq.call("GET", f"/v1/tasks/{task_id}/sub_tasks").body, "items")
    assert [one["result"] for one in listed] == ODD


def raw(body: bytes) -> dict[str, bytes]:
    """The members of an object as their bytes."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return {name: bytes(value) for name, value in members.items()}


def raw_items(body: bytes, name: str) -> list[dict[str, bytes]]:
    return [raw(bytes(item)) for item in msgspec.json.decode(raw(body)[name], type=list[msgspec.Raw])]


def test_a_create_whose_answer_was_cut_off_makes_one_task_however_often_it_is_sent_again(
    rvq: Rvq, database: Database
) -> None:
    body = json.dumps({"sub_tasks": [{"payload": number} for number in range(50)]}).encode()
    for number in range(10):
        key = f"order-{number}"
        threads = [threading.Thread(target=send_and_cut, args=(rvq, key, body)) for _ in range(3)]
        for thread in threads:
            thread.start()
        answers = [rvq.call("POST", "/v1/tasks", body, headers={"Idempotency-Key": key}) for _ in range(2)]
        for thread in threads:
            thread.join()
        assert {answer.status for answer in answers} <= {200, 201}
        assert answers[0].json["id"] == answers[1].json["id"]
        assert answers[1].headers["Idempotency-Replayed"] == "true"
    wait_until(lambda: nothing_runs(database), "every cut request has come to its end")
    assert database.value("SELECT count(*) FROM rvq.tasks") == 10
    assert database.value("SELECT count(*) FROM rvq.sub_tasks") == 500


def send_and_cut(rvq: Rvq, key: str, body: bytes) -> None:
    """The whole request, and no wait for its answer: the connection is reset."""
    connection = http.client.HTTPConnection(rvq.bind, timeout=10)
    connection.request("POST", "/v1/tasks", body, rvq.headers("PARTNER", {"Idempotency-Key": key}))
    stream = connection.sock
    assert stream
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()


def nothing_runs(database: Database) -> bool:
    sql = """SELECT count(*) = 0 FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'rvq-api' AND state <> 'idle'"""
    return bool(database.value(sql))


@pytest.mark.parametrize(
    ("completion", "payloads", "status", "counts"),
    [
        pytest.param(
            {"policy": "fail_fast"},
            ["wait", "succeed", "fail", "wait"],
            "failed",
            {"failed": 1, "cancelled": 2},
            id="fail_fast",
        ),
        pytest.param(
            {"policy": "at_least", "count": 2},
            ["wait", "succeed", "succeed", "wait"],
            "succeeded",
            {"succeeded": 2, "cancelled": 2},
            id="at_least",
        ),
        pytest.param(
            {"policy": "at_least", "count": 3},
            ["wait", "fail", "fail", "wait"],
            "failed",
            {"failed": 2, "cancelled": 2},
            id="at_least-out-of-reach",
        ),
        pytest.param(
            {"policy": "all", "deadline_seconds": 4},
            ["wait", "succeed", "wait"],
            "failed",
            {"succeeded": 1, "cancelled": 2},
            id="deadline",
        ),
    ],
)
def test_a_policy_ends_the_task_and_the_workers_learn_it(
    rvq: Rvq,
    receiver: Receiver,
    completion: dict[str, object],
    payloads: list[str],
    status: str,
    counts: dict[str, int],
) -> None:
    """What decides is held back until what waits is surely with the worker."""
    rvq.start_worker("Told")
    orders: list[object] = [{"do": what, "after": None if what == "wait" else "decide"} for what in payloads]
    task_id = rvq.create(orders, webhook_url=receiver.url(), completion=completion)
    waiting = [index for index, what in enumerate(payloads) if what == "wait"]
    for index in waiting:
        rvq.wait_file(f"waiting-{index}")
    (rvq.folder / "decide").touch()
    task = rvq.wait_ended(task_id)
    assert task["status"] == status
    assert {name: task["counts"][name] for name in counts} == counts
    for index in waiting:
        rvq.wait_file(f"told-{index}")
    (webhook,) = webhooks(receiver, rvq)
    assert json.loads(webhook.body)["type"] == f"task.{status}"


def test_a_cancelled_task_stops_its_workers_and_tells_the_partner_once(rvq: Rvq, receiver: Receiver) -> None:
    rvq.start_worker("Told")
    task_id = rvq.create([{"do": "wait"}, {"do": "wait"}], webhook_url=receiver.url())
    rvq.wait_file("waiting-0")
    rvq.wait_file("waiting-1")
    cancelled = rvq.call("POST", f"/v1/tasks/{task_id}/cancel").expect(200)
    assert (cancelled["status"], cancelled["counts"]["cancelled"]) == ("cancelled", 2)
    rvq.call("POST", f"/v1/tasks/{task_id}/cancel").expect(409)
    rvq.wait_file("told-0")
    rvq.wait_file("told-1")
    (webhook,) = webhooks(receiver, rvq)
    assert json.loads(webhook.body)["type"] == "task.cancelled"


def test_an_admin_retry_ends_in_a_new_event_with_a_new_webhook_id(rvq: Rvq, receiver: Receiver) -> None:
    rvq.start_worker("Told")
    orders: list[object] = [{"do": "succeed"}, {"do": "fail_until", "file": "mended"}]
    task_id = rvq.create(orders, webhook_url=receiver.url())
    assert rvq.wait_ended(task_id)["status"] == "failed"
    webhooks(receiver, rvq)
    (rvq.folder / "mended").touch()
    assert rvq.admin("POST", f"tasks/{task_id}/retry")["status"] in ("queued", "running")
    first, second = webhooks(receiver, rvq, 2)
    assert rvq.task(task_id)["status"] == "succeeded"
    assert [json.loads(one.body)["type"] for one in (first, second)] == ["task.failed", "task.succeeded"]
    assert [one["id"] for one in rvq.pages("/v1/events")] == [first.id, second.id]
    assert first.id != second.id


def test_the_secret_is_rotated_while_receivers_go_on_with_the_one_they_have(
    rvq: Rvq, receiver: Receiver
) -> None:
    old = rvq.settings["APP_WEBHOOK_SECRET"]
    new = "whsec_" + "bmV3IHNlY3JldCBvZiBtb3JlIHRoYW4gMjQgYnl0ZXM="
    rvq.start_worker("Echo")
    holds = []
    for secrets in (old, f"{new},{old}", new):
        before = rvq.dispatcher
        rvq.start_dispatcher(APP_WEBHOOK_SECRET=secrets)
        before.stop()
        count = len(receiver.ids()) + 1
        rvq.create([1], webhook_url=receiver.url())
        received = arrived(receiver, count)[-1]
        holds.append([_verifies(received, secret) for secret in (old, new)])
    assert holds == [[True, False], [True, True], [False, True]]


def _verifies(received: Received, secret: str) -> bool:
    try:
        received.verify(secret)
    except Exception:
        return False
    return True
