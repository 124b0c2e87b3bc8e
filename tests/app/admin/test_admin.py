"""The admin API: retry, cancel, queues, deliveries, audit, reset."""

from __future__ import annotations

import msgspec
import pytest

from app.admin.schemas import AdminDeliveryPage, Audit, BulkRedelivery, Queue
from tests.app.partner.test_webhooks import settle
from tests.app.rig import HOOK, UNKNOWN_TASK, Caller, failed, lease_of, succeeded
from tests.support.database import Database


def test_a_failed_task_runs_again_and_ends_with_another_event(api: Caller) -> None:
    task_id = api.create(1, 2, max_attempts=1)["id"]
    bad, good = api.claim()
    api.complete([failed(bad), succeeded(good)])
    assert api.admin("POST", f"tasks/{task_id}/retry").expect(200)["status"] in ("queued", "running")
    assert api.complete(succeeded(claimed) for claimed in api.claim()) == ["succeeded"]
    assert api.read(task_id)["status"] == "succeeded"
    events = api.partner("GET", "/v1/events").json["items"]
    assert [event["type"] for event in events] == ["task.failed", "task.succeeded"]
    assert len({event["id"] for event in events}) == 2


def test_only_a_task_that_failed_can_be_retried(api: Caller) -> None:
    for task_id in (api.create(1)["id"], api.finish(2)):
        api.admin("POST", f"tasks/{task_id}/retry").problem(409, "state_conflict")


def test_an_admin_cancels_a_task_once(api: Caller) -> None:
    task_id = api.create(1)["id"]
    assert api.admin("POST", f"tasks/{task_id}/cancel").expect(200)["status"] == "cancelled"
    api.admin("POST", f"tasks/{task_id}/cancel").problem(409, "state_conflict")


@pytest.mark.parametrize("verb", ["retry", "cancel"])
@pytest.mark.parametrize("task_id", [UNKNOWN_TASK, "x", "task_ffffffffffffffff"])
def test_an_unknown_task_is_404(api: Caller, verb: str, task_id: str) -> None:
    api.admin("POST", f"tasks/{task_id}/{verb}").problem(404, "not_found")


def test_a_paused_queue_hands_nothing_out_until_it_is_resumed(api: Caller) -> None:
    api.create(1, queue="text")
    before = msgspec.convert(api.admin("GET", "queues/text").expect(200), Queue)
    assert before == Queue("text", False, 0, 1, 0)
    assert api.admin("POST", "queues/text", {"paused": True}).expect(200)["paused"] is True
    assert api.claim(queues=["text"]) == []
    assert api.admin("POST", "queues/text", {"paused": False}).expect(200)["paused"] is False
    assert len(api.claim(queues=["text"])) == 1


def test_a_queue_nobody_used_is_empty(api: Caller) -> None:
    assert api.admin("GET", "queues/never").expect(200)["queued"] == 0


@pytest.mark.parametrize("queue", ["No", "%20", "a" * 64, "%00", "-"])
def test_a_name_that_no_queue_can_have_is_404(api: Caller, queue: str) -> None:
    api.admin("GET", f"queues/{queue}").problem(404)
    api.admin("POST", f"queues/{queue}", {"paused": True}).problem(404)


@pytest.mark.parametrize("paused", [None, 0, 1, "true", []])
def test_paused_is_true_or_false(api: Caller, paused: object) -> None:
    assert api.admin("POST", "queues/default", {"paused": paused}).pointers() == ["/paused"]


def dead_letters(api: Caller, database: Database, count: int) -> None:
    for number in range(count):
        api.finish(number, webhook_url=HOOK)
    settle(database, "dead", 410, b"gone")


def test_deliveries_are_listed_and_narrowed(api: Caller, database: Database) -> None:
    dead_letters(api, database, 2)
    api.finish("waiting", webhook_url="https://hooks.example/x")
    api.finish("no webhook")
    page = msgspec.convert(api.admin("GET", "deliveries").expect(200), AdminDeliveryPage)
    assert [delivery.status for delivery in page.items] == ["pending", "dead", "dead"]
    assert (page.items[1].last_status_code, page.items[1].attempts) == (410, 1)
    for query, count in {
        "status=dead": 2,
        "status=pending": 1,
        "status=delivered": 0,
        "host=127.0.0.1:9000": 2,
        "host=hooks.example:443": 1,
        "host=elsewhere": 0,
        "since=2024-01-01T00:00:00Z": 3,
        "since=2199-01-01T00:00:00Z": 0,
        "status=dead&host=hooks.example:443": 0,
    }.items():
        assert len(api.admin("GET", f"deliveries?{query}").expect(200)["items"]) == count, query


def test_deliveries_are_listed_in_pages(api: Caller, database: Database) -> None:
    dead_letters(api, database, 3)
    first = api.admin("GET", "deliveries?limit=2").json
    second = api.admin("GET", f"deliveries?limit=2&cursor={first['next_cursor']}").json
    assert (len(first["items"]), len(second["items"]), second["next_cursor"]) == (2, 1, None)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("status=lost", "/status"),
        ("since=yesterday", "/since"),
        ("since=2026-01-01", "/since"),
        ("since=2026-01-01T00:00:00", "/since"),
        ("host=%00", "/host"),
        ("host=a%20b", "/host"),
        ("limit=0", "/limit"),
        ("cursor=x", "/cursor"),
    ],
)
def test_a_listing_refuses_what_it_does_not_understand(api: Caller, query: str, pointer: str) -> None:
    assert api.admin("GET", f"deliveries?{query}").pointers() == [pointer]


def test_one_delivery_is_sent_again(api: Caller, database: Database) -> None:
    dead_letters(api, database, 1)
    (delivery,) = api.admin("GET", "deliveries").json["items"]
    assert api.admin("POST", f"deliveries/{delivery['id']}/redeliver").expect(200) == {"redelivered": 1}
    assert api.admin("GET", "deliveries?status=pending").json["items"][0]["id"] == delivery["id"]


@pytest.mark.parametrize("delivery_id", ["dlv_7fff000000000000", "x", "dlv_ffffffffffffffff", "%00"])
def test_an_unknown_delivery_is_404(api: Caller, delivery_id: str) -> None:
    api.admin("POST", f"deliveries/{delivery_id}/redeliver").problem(404, "not_found")


def test_many_deliveries_are_counted_first_and_then_sent_again(api: Caller, database: Database) -> None:
    dead_letters(api, database, 3)
    counted = api.admin("POST", "deliveries/redeliver", {"dry_run": True}).expect(200)
    assert msgspec.convert(counted, BulkRedelivery) == BulkRedelivery(3, 0, True, True)
    assert api.admin("GET", "deliveries?status=pending").json["items"] == []
    host = {"status": "dead", "host": "127.0.0.1:9000", "since": "2024-01-01T00:00:00Z"}
    sent = api.admin("POST", "deliveries/redeliver", host).expect(200)
    assert msgspec.convert(sent, BulkRedelivery) == BulkRedelivery(3, 3, False, True)
    assert len(api.admin("GET", "deliveries?status=pending").json["items"]) == 3
    assert api.admin("POST", "deliveries/redeliver", {}).expect(200)["matched"] == 0


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"status": "all"}, "/status"),
        ({"status": None}, "/status"),
        ({"host": 1}, "/host"),
        ({"host": "a\0"}, "/host"),
        ({"since": "x"}, "/since"),
        ({"dry_run": "yes"}, "/dry_run"),
        ({"dry_run": None}, "/dry_run"),
    ],
)
def test_a_bulk_redelivery_is_checked(api: Caller, body: object, pointer: str) -> None:
    assert api.admin("POST", "deliveries/redeliver", body).pointers() == [pointer]


def test_the_audit_finds_drift_and_repairs_it(api: Caller, database: Database) -> None:
    api.finish(1)
    assert msgspec.convert(api.admin("GET", "audit").expect(200), Audit).drift == 0
    database.rows("INSERT INTO rvq.counter_deltas (queue, succeeded) VALUES ('default', 5)")
    found = msgspec.convert(api.admin("GET", "audit").expect(200), Audit)
    wrong = [counter for counter in found.counters if counter.counted != counter.truth]
    assert (found.drift, [(c.counter, c.counted, c.truth) for c in wrong]) == (1, [("succeeded", 6, 1)])
    assert api.admin("POST", "audit/repair").expect(200) == {"repaired": 1}
    assert api.admin("GET", "audit").json["drift"] == 0


def test_a_reset_empties_everything_and_old_leases_are_unknown(api: Caller) -> None:
    done = api.finish(1, webhook_url=HOOK)
    open_id = api.create(1)["id"]
    (claimed,) = api.claim()
    assert api.admin("POST", "reset", {"confirm": "reset"}).expect(200) == {"reset": True}
    for task_id in (done, open_id):
        api.partner("GET", f"/v1/tasks/{task_id}").problem(404)
    assert api.complete([succeeded(claimed)]) == ["unknown"]
    for verb in ("heartbeat", "release"):
        response = api.worker(verb, {"worker_id": "w", "leases": [lease_of(claimed)]}).expect(200)
        assert response["results"][0]["outcome"] == "unknown"
    assert api.partner("GET", "/v1/events").json["items"] == []
    assert api.create(1)["counts"]["total"] == 1


@pytest.mark.parametrize(
    "body", [{}, {"confirm": "yes"}, {"confirm": True}, {"confirm": None}, {"confirm": "RESET"}]
)
def test_a_reset_that_is_not_confirmed_does_nothing(api: Caller, body: object) -> None:
    task_id = api.create(1)["id"]
    assert api.admin("POST", "reset", body).pointers() == ["/confirm"]
    api.read(task_id)
