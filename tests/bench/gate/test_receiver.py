"""The receiver's own verification, held against the public vector and an independent library."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from bench.receiver import Ledger, decoded, duplicates

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
Headers = dict[bytes, bytes]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(decoded(SECRET))


def signed(body: bytes, event_id: str = "evt_1", at: float | None = None) -> Headers:
    """Headers as the library makes them."""
    moment = datetime.fromtimestamp(int(time.time() if at is None else at), UTC)
    signature = Webhook(SECRET).sign(event_id, moment, body.decode())
    return {
        b"webhook-id": event_id.encode(),
        b"webhook-timestamp": str(int(moment.timestamp())).encode(),
        b"webhook-signature": signature.encode(),
    }


def event(task_id: str = "task_1", timestamp: str = "2026-11-29T20:00:00.250000Z") -> bytes:
    return json.dumps(
        {"type": "task.succeeded", "timestamp": timestamp, "data": {"task_id": task_id}}
    ).encode()


def test_the_public_vector_holds(ledger: Ledger) -> None:
    headers = {
        b"webhook-id": b"msg_p5jXN8AQM9LWM0D4loKWxJek",
        b"webhook-timestamp": b"1614265330",
        b"webhook-signature": b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert ledger.check(headers, b'{"test": 2432232314}', now=1614265330) is None


def test_a_signature_of_the_library_holds_among_others(ledger: Ledger) -> None:
    body = event()
    headers = signed(body)
    headers[b"webhook-signature"] = b"v1a,AAAA v1,bm90IG91cnM= " + headers[b"webhook-signature"]
    assert ledger.take(headers, body) is None
    assert ledger.received.task_ids == ["task_1"]


FAULTS: list[tuple[str, str, Callable[[Headers, bytes], tuple[Headers, bytes]]]] = [
    ("another body", "signature", lambda headers, body: (headers, body.replace(b"succeeded", b"cancelled"))),
    ("another id", "signature", lambda headers, body: ({**headers, b"webhook-id": b"evt_2"}, body)),
    ("too old", "timestamp", lambda _, body: (signed(body, at=time.time() - 301), body)),
    ("no header", "header missing or malformed", lambda _, body: ({}, body)),
    ("no number", "header missing or malformed", lambda h, body: ({**h, b"webhook-timestamp": b"now"}, body)),
    ("no event", "not an event", lambda _, __: (signed(b'{"type":"ping"}'), b'{"type":"ping"}')),
    ("no time", "not an event", lambda _, __: (signed(event(timestamp="now")), event(timestamp="now"))),
]


@pytest.mark.parametrize(("reason", "change"), [fault[1:] for fault in FAULTS], ids=[f[0] for f in FAULTS])
def test_what_is_wrong_is_refused_and_counted(
    ledger: Ledger, reason: str, change: Callable[[Headers, bytes], tuple[Headers, bytes]]
) -> None:
    body = event()
    assert ledger.take(*change(signed(body), body)) == reason
    assert ledger.received.invalid == {reason: 1}
    assert (ledger.received.event_ids, ledger.total) == ([], 0)


def test_any_secret_in_use_verifies() -> None:
    other = "whsec_" + base64.b64encode(b"o" * 32).decode()
    body = event()
    assert Ledger(decoded(f"{other}, {SECRET}")).take(signed(body), body) is None


def test_lag_counts_from_the_time_in_the_event(ledger: Ledger) -> None:
    body = event(timestamp="2026-11-29T20:00:00.250000Z")
    ledger.take(signed(body), body)
    assert ledger.received.happened == [datetime(2026, 11, 29, 20, 0, 0, 250_000, UTC).timestamp()]


def test_the_same_id_again_is_a_duplicate_and_counts_once(ledger: Ledger) -> None:
    body = event()
    for _ in range(3):
        ledger.take(signed(body), body)
    assert (duplicates(ledger.received), ledger.total) == (2, 1)


def test_a_reset_forgets_refusals_and_what_happened_before(ledger: Ledger) -> None:
    ledger.take({}, b"")
    for task_id, second in (("task_before", 10), ("task_after", 20)):
        body = event(task_id, f"2026-11-29T20:00:{second}.000000Z")
        ledger.take(signed(body, task_id), body)
    ledger.reset(datetime(2026, 11, 29, 20, 0, 15, tzinfo=UTC).timestamp())
    assert (ledger.received.task_ids, ledger.received.invalid, ledger.total) == (["task_after"], {}, 2)
