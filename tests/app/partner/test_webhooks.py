"""Deliveries, the events feed, and signatures checked on a partner's behalf."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook

from app.db import Pool
from app.partner.schemas import DeliveryPage, EventPage, Verdict, WebhookKeys
from app.web.schemas import AttemptDetail
from tests.app.rig import HOOK, SECRET, SIGNING_KEY, Caller, failed, make_caller
from tests.support.database import Database

OTHER_SECRET = "whsec_" + "B" * 32


def settle(database: Database, verdict: str, status_code: int | None, answer: bytes) -> None:
    """Record an attempt of every due delivery, as the dispatcher does."""
    due = database.rows("SELECT id, lease_token FROM rvq.claim_deliveries(100, 30, 100)")
    for number, token in due:
        settled = database.value(
            "SELECT rvq.settle_deliveries(%s, %s::uuid[], %s, %s, %s, %s, %s, %s, %s)",
            (
                [number],
                [token],
                [verdict],
                [0.0],
                [0.1],
                ["http_error"],
                [status_code],
                ['{"summary":"HTTP"}'],
                [answer],
            ),
        )
        assert settled == [number]


def deliveries(api: Caller, task_id: str) -> DeliveryPage:
    return msgspec.convert(api.partner("GET", f"/v1/tasks/{task_id}/deliveries").expect(200), DeliveryPage)


def test_a_task_without_a_webhook_has_no_deliveries(api: Caller) -> None:
    assert deliveries(api, api.finish(1)).items == []
    assert deliveries(api, api.create(1, webhook_url=HOOK)["id"]).items == []


def test_deliveries_are_listed_with_their_attempts(api: Caller, database: Database) -> None:
    task_id = api.finish(1, webhook_url=HOOK)
    (waiting,) = deliveries(api, task_id).items
    assert (waiting.status, waiting.url, waiting.type, waiting.attempts) == (
        "pending",
        HOOK,
        "task.succeeded",
        [],
    )
    settle(database, "retry", 503, b"busy \xff\0")
    settle(database, "dead", 410, b"")
    (dead,) = deliveries(api, task_id).items
    assert (dead.status, dead.next_attempt_at) == ("dead", None)
    assert [(attempt.attempt, attempt.status_code) for attempt in dead.attempts] == [(1, 503), (2, 410)]
    assert (dead.attempts[0].answer, dead.attempts[0].detail) == (
        "busy \ufffd\0",
        AttemptDetail(summary="HTTP"),
    )
    assert dead.event_id.startswith("evt_")


LARGEST_ANSWER = 8192
ATTEMPTS = """
    INSERT INTO rvq.delivery_attempts (id, started_at, ended_at, attempt, status, queue, outcome, answer)
    SELECT d.id, rvq.clock(), rvq.clock(), i, 'pending', d.queue, 'timeout', %s
      FROM rvq.due_deliveries AS d CROSS JOIN generate_series(1, %s) AS i
"""


@pytest.mark.parametrize(("limit", "answer", "most"), [(1000, b"\1", 256), (100, b"x", 100), (7, b"", 7)])
def test_attempts_are_listed_in_pages_that_are_bounded_in_number_and_size(
    api: Caller, database: Database, limit: int, answer: bytes, most: int
) -> None:
    task_id = api.finish(1, webhook_url=HOOK)
    database.rows(ATTEMPTS, (answer * LARGEST_ANSWER, 600))
    listed: list[int] = []
    sizes: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        reply = api.partner("GET", f"/v1/tasks/{task_id}/deliveries?limit={limit}&cursor={cursor}")
        page = msgspec.convert(reply.expect(200), DeliveryPage)
        assert len(reply.body) < 16 * 1024 * 1024
        listed += [attempt.attempt for delivery in page.items for attempt in delivery.attempts]
        sizes.append(sum(len(delivery.attempts) for delivery in page.items))
        assert {delivery.status for delivery in page.items} <= {"pending"}
        cursor = page.next_cursor
    assert listed == [*range(1, 601)]
    assert max(sizes) == most


def test_a_dead_delivery_is_sent_again(api: Caller, database: Database) -> None:
    task_id = api.finish(1, webhook_url=HOOK)
    settle(database, "dead", 410, b"")
    assert api.partner("POST", f"/v1/tasks/{task_id}/redeliver").expect(200) == {"redelivered": 1}
    (again,) = deliveries(api, task_id).items
    assert (again.status, len(again.attempts)) == ("pending", 1)


def test_a_delivery_that_is_being_sent_is_not_sent_again_and_the_answer_says_so(
    api: Caller, database: Database
) -> None:
    task_id = api.finish(1, webhook_url=HOOK)
    (pending,) = deliveries(api, task_id).items
    database.rows("SELECT rvq.claim_deliveries(1, 30, 1)")
    for reply in (
        api.partner("POST", f"/v1/tasks/{task_id}/redeliver"),
        api.admin("POST", f"deliveries/{pending.id}/redeliver"),
    ):
        assert "being sent at this moment" in reply.problem(409, "state_conflict").detail
    many = api.admin("POST", "deliveries/redeliver", {"status": "pending"}).expect(200)
    assert (many["matched"], many["redelivered"]) == (1, 0)


def test_a_webhook_that_was_sent_a_thousand_times_is_not_sent_again(api: Caller, database: Database) -> None:
    task_id = api.finish(1, webhook_url=HOOK)
    (pending,) = deliveries(api, task_id).items
    settle(database, "dead", 410, b"")
    database.rows("UPDATE rvq.delivery_attempts SET attempt = 1000")
    api.partner("POST", f"/v1/tasks/{task_id}/redeliver").problem(429, "too_many_redeliveries")
    api.admin("POST", f"deliveries/{pending.id}/redeliver").problem(429, "too_many_redeliveries")
    many = api.admin("POST", "deliveries/redeliver", {}).expect(200)
    assert (many["matched"], many["redelivered"], many["complete"]) == (1, 0, True)
    assert deliveries(api, task_id).items[0].status == "dead"


def test_there_is_nothing_to_send_again_before_the_end_or_without_a_webhook(api: Caller) -> None:
    for task_id in (api.finish(1), api.create(1, webhook_url=HOOK)["id"]):
        api.partner("POST", f"/v1/tasks/{task_id}/redeliver").problem(409, "state_conflict")


def test_the_feed_has_every_event_in_order(api: Caller) -> None:
    first = api.finish(1, metadata={"n": 1.10})
    second = api.create(1, max_attempts=1)["id"]
    api.complete([failed(api.claim()[0])])
    third = api.create(1)["id"]
    api.partner("POST", f"/v1/tasks/{third}/cancel").expect(200)
    page = msgspec.convert(api.partner("GET", "/v1/events").expect(200), EventPage)
    found = [(event.data.task_id, event.type) for event in page.items]
    assert found == [(first, "task.succeeded"), (second, "task.failed"), (third, "task.cancelled")]
    assert page.items[0].data.metadata == {"n": 1.10}


def test_the_feed_goes_on_from_a_cursor(api: Caller) -> None:
    finished = [api.finish(number) for number in range(5)]
    first = api.partner("GET", "/v1/events?limit=2").json
    rest = api.partner("GET", f"/v1/events?cursor={first['next_cursor']}").json
    assert [event["data"]["task_id"] for event in first["items"] + rest["items"]] == finished
    at_the_end = api.partner("GET", f"/v1/events?cursor={rest['next_cursor']}").json
    assert at_the_end == {"items": [], "next_cursor": None}
    later = api.finish("later")
    more = api.partner("GET", f"/v1/events?cursor={rest['next_cursor']}").json
    assert [event["data"]["task_id"] for event in more["items"]] == [later]


def test_nothing_appears_behind_a_cursor_while_tasks_end_side_by_side(database: Database) -> None:
    pool = Pool(database.url, 9, "rvq-api-test")
    api = make_caller(database.url, pool)
    tasks, per_thread = 8, 10

    def finish(number: int) -> None:
        caller = Caller(api.app)
        for _ in range(per_thread):
            _finish_in(caller, f"q{number}")

    seen: list[str] = []
    cursor = ""
    with ThreadPoolExecutor(tasks) as threads:
        running = [threads.submit(finish, number) for number in range(tasks)]
        while not all(future.done() for future in running):
            cursor = _drain(api, cursor, seen)
        for future in running:
            future.result()
    _drain(api, cursor, seen)
    everything = [event["id"] for event in _all_events(api)]
    pool.close()
    assert len(everything) == tasks * per_thread
    assert seen == everything


def _finish_in(caller: Caller, queue: str) -> None:
    caller.create(1, queue=queue)
    claimed = caller.claim(queues=[queue])
    caller.complete({"id": c["id"], "lease_token": c["lease_token"], "status": "succeeded"} for c in claimed)


def _drain(api: Caller, cursor: str, seen: list[str]) -> str:
    while True:
        page = api.partner("GET", f"/v1/events?limit=7&cursor={cursor}").expect(200)
        if not page["items"]:
            return cursor
        seen += [event["id"] for event in page["items"]]
        cursor = page["next_cursor"]


def _all_events(api: Caller) -> list[Any]:
    events: list[Any] = api.partner("GET", "/v1/events?limit=1000").expect(200)["items"]
    return events


def signed(
    body: str, *, secret: str = SECRET, at: float | None = None, event_id: str = "evt_1"
) -> dict[str, str]:
    """Return headers as an independent implementation makes them."""
    moment = datetime.fromtimestamp(at or time.time(), UTC)
    signature = Webhook(secret).sign(event_id, moment, body)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": signature,
    }


def verify(api: Caller, headers: dict[str, str], body: str) -> Verdict:
    response = api.partner("POST", "/v1/webhooks/verify", {"headers": headers, "body": body})
    return msgspec.convert(response.expect(200), Verdict)


def test_a_signature_of_ours_holds(api: Caller) -> None:
    body = '{"type":"task.succeeded","ü":1.10}'
    verdict = verify(api, {name.upper(): value for name, value in signed(body).items()}, body)
    assert (verdict.valid, verdict.reason, verdict.scheme) == (True, "valid", "v1")


def test_a_wrong_signature_is_explained(api: Caller) -> None:
    body = '{"a":1}'
    good = signed(body)
    assert verify(api, good, '{"a": 1}').reason in ("body_changed", "no_match")
    assert verify(api, signed(body, secret=OTHER_SECRET), body).reason == "no_match"
    assert verify(api, signed(body, at=time.time() - 3600), body).reason == "clock_too_old"
    assert verify(api, signed(body, at=time.time() + 3600), body).reason == "clock_too_new"
    assert verify(api, {}, body).reason == "missing_header"
    assert verify(api, {**good, "webhook-timestamp": "now"}, body).reason == "malformed"
    assert verify(api, {**good, "webhook-signature": "v1,!"}, body).reason == "malformed"


def test_for_an_event_of_ours_a_changed_body_is_told_from_a_foreign_key(
    api: Caller, database: Database
) -> None:
    api.finish(1)
    number, sent = database.row("SELECT id, body FROM rvq.events")
    event_id = f"evt_{number:016x}"
    good = signed(sent, event_id=event_id)
    assert verify(api, good, sent).valid
    assert verify(api, good, sent.replace("succeeded", "failed")).reason == "body_changed"
    foreign = signed(sent, secret=OTHER_SECRET, event_id=event_id)
    assert verify(api, foreign, sent).reason == "key_mismatch"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"headers": {}}, "/body"),
        ({"body": ""}, "/headers"),
        ({"headers": [], "body": ""}, "/headers"),
        ({"headers": {"a": 1}, "body": ""}, "/headers"),
        ({"headers": {}, "body": {}}, "/body"),
    ],
)
def test_what_is_checked_has_headers_and_a_body(api: Caller, body: object, pointer: str) -> None:
    assert api.partner("POST", "/v1/webhooks/verify", body).pointers() == [pointer]


def test_the_public_key_is_published(api: Caller, database: Database, pool: Pool) -> None:
    keys = msgspec.convert(api.partner("GET", "/v1/webhooks/keys").expect(200), WebhookKeys).keys
    assert [key.scheme for key in keys] == ["v1a"]
    assert keys[0].public_key.startswith("whpk_")
    assert SIGNING_KEY not in str(keys)
    without = make_caller(database.url, pool, APP_WEBHOOK_SIGNING_KEY=None)
    assert without.partner("GET", "/v1/webhooks/keys").expect(200) == {"keys": []}
