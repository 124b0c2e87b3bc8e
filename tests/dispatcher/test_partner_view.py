"""What a partner can find out about deliveries of a real dispatcher, over HTTP."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.db import Pool
from app.partner.schemas import DeliveryPage, TaskDelivery, Verdict
from app.web.schemas import AttemptDetail
from tests.app.rig import Caller, make_caller
from tests.dispatcher.receiver import Answer, Received, Receiver
from tests.dispatcher.rig import OLD_SECRET, SECRET, Tasks, environment, running
from tests.support.concurrency import wait_until
from tests.support.database import Database

SIGNING_KEY = "whsk_" + base64.b64encode(b"an Ed25519 seed of 32 bytes ....").decode()


@pytest.fixture
def api(database: Database) -> Iterator[Caller]:
    pool = Pool(database.url, 2, "rvq-test-partner-view")
    with contextlib.closing(pool):
        yield make_caller(
            database.url,
            pool,
            APP_WEBHOOK_SECRET=f"{SECRET},{OLD_SECRET}",
            APP_WEBHOOK_SIGNING_KEY=SIGNING_KEY,
        )


def delivery(api: Caller, task_id: int) -> TaskDelivery:
    page = api.partner("GET", f"/v1/tasks/task_{task_id:016x}/deliveries").expect(200)
    (found,) = msgspec.convert(page, DeliveryPage).items
    return found


def verify(api: Caller, headers: Any, body: bytes) -> Verdict:
    asked = {"headers": dict(headers), "body": body.decode()}
    return msgspec.convert(api.partner("POST", "/v1/webhooks/verify", asked).expect(200), Verdict)


@pytest.fixture
def received(database: Database) -> Received:
    """A webhook of a real dispatcher that signs with two secrets and a private key."""
    tasks = Tasks(database.url)
    keys = {"APP_WEBHOOK_SECRET": f"{SECRET},{OLD_SECRET}", "APP_WEBHOOK_SIGNING_KEY": SIGNING_KEY}
    with Receiver() as receiver, running(environment(database.url, receiver.host, **keys)):
        tasks.finish(receiver.url())
        tasks.wait_until_done()
    return receiver.received[0]


def test_each_attempt_is_explained(api: Caller, database: Database) -> None:
    tasks = Tasks(database.url)
    answers = {"/delivered": Answer(200), "/gone": Answer(410), "/busy": Answer(503, {"Retry-After": "77"})}
    answers["/long"] = Answer(500, body=b"\xff" + b"x" * 9_000)
    with Receiver(lambda received: answers[received.path]) as receiver:
        nobody = "127.0.0.1:9"
        with running(environment(database.url, receiver.host, nobody)):
            ids = {path: tasks.finish(receiver.url(path))[0] for path in answers}
            ids["nobody"] = tasks.finish(f"http://{nobody}/")[0]
            wait_until(lambda: all(map(tasks.ledger, ids.values())), "all were tried")
    seen = {path: delivery(api, number) for path, number in ids.items()}
    firsts = {path: one.attempts[0] for path, one in seen.items()}
    assert {path: first.outcome for path, first in firsts.items()} == {
        "/delivered": "delivered",
        "/gone": "gone",
        "/busy": "http_error",
        "/long": "http_error",
        "nobody": "refused",
    }
    details: dict[str, Any] = {path: first.detail for path, first in firsts.items()}
    assert all(isinstance(detail, AttemptDetail) for detail in details.values())
    assert {detail.address for detail in details.values()} == {"127.0.0.1"}
    assert all(detail.phases_ms.total > 0 for detail in details.values())
    assert (details["/busy"].summary, details["/busy"].retry_after_seconds) == ("HTTP 503", 77)
    assert (seen["/gone"].status, details["/gone"].reason) == ("dead", "gone")
    assert (firsts["/long"].answer or "").startswith("\ufffdxxx")
    assert len(firsts["/long"].answer or "") == 8192
    assert firsts["/delivered"].started_at <= firsts["/delivered"].ended_at
    assert seen["/busy"].next_attempt_at is not None


def test_the_self_check_tells_which_key_signed_and_what_is_wrong(api: Caller, received: Received) -> None:
    assert verify(api, received.headers, received.body).reason == "valid"
    first, second, third = received.headers["webhook-signature"].split()
    for signature, scheme, key in ((first, "v1", 0), (second, "v1", 1), (third, "v1a", 0)):
        found = verify(api, {**received.headers, "webhook-signature": signature}, received.body)
        assert (found.valid, found.scheme, found.key) == (True, scheme, key)
    changed = verify(api, received.headers, received.body.replace(b":", b": ", 1))
    assert (changed.valid, changed.reason) == (False, "body_changed")
    late = verify(api, {**received.headers, "webhook-timestamp": "1700000000"}, received.body)
    assert (late.valid, late.reason) == (False, "key_mismatch")
    foreign = verify(api, {**received.headers, "webhook-signature": "v1," + "A" * 43 + "="}, received.body)
    assert (foreign.valid, foreign.reason) == (False, "key_mismatch")


def test_the_published_key_verifies_v1a(api: Caller, received: Received) -> None:
    (key,) = api.partner("GET", "/v1/webhooks/keys").expect(200)["keys"]
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key["public_key"].removeprefix("whpk_")))
    (signature,) = [
        text.removeprefix("v1a,")
        for text in received.headers["webhook-signature"].split()
        if text.startswith("v1a,")
    ]
    content = f"{received.id}.{received.headers['webhook-timestamp']}.".encode() + received.body
    public.verify(base64.b64decode(signature), content)


def test_both_secrets_verify_with_the_standards_library_while_they_rotate(received: Received) -> None:
    assert received.verify(SECRET) == received.verify(OLD_SECRET)


def test_dead_deliveries_of_a_host_are_sent_again_in_bulk_and_arrive_under_the_same_id(
    api: Caller, database: Database
) -> None:
    tasks = Tasks(database.url)
    answers = [Answer(410)]
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(Receiver(lambda _: answers[-1]))
        other = stack.enter_context(Receiver(Answer(410)))
        with running(environment(database.url, receiver.host, other.host)):
            ids = tasks.finish(receiver.url(), 5)
            tasks.finish(other.url(), 2)
            tasks.wait_until_done()
            answers.append(Answer(200))
            choice = {"host": receiver.host, "since": "2026-01-01T00:00:00Z"}
            bulk = "deliveries/redeliver"
            counted = api.admin("POST", bulk, {**choice, "dry_run": True}).expect(200)
            assert (counted["matched"], counted["redelivered"], tasks.pending()) == (5, 0, 0)
            none = api.admin("POST", bulk, {**choice, "since": "2199-01-01T00:00:00Z"}).expect(200)
            assert none["matched"] == 0
            assert api.admin("POST", bulk, choice).expect(200)["redelivered"] == 5
            tasks.wait_until_done()
    assert sorted(receiver.ids()) == sorted([f"evt_{number:016x}" for number in ids] * 2)
    assert len(other.received) == 2
    for number in ids:
        assert tasks.ledger(number) == [(1, "gone", "dead"), (2, "delivered", "delivered")]
