"""Signatures: the standard's vector, the independent library, rotation, and verdicts that say why not."""

from __future__ import annotations

import base64
import json
import time

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from app.webhooks.signatures import Verdict, private_key, public_key_text, verify
from dispatcher.http.signer import Signer

OLD, NEW = b"the old secret, of 32 bytes ....", b"the new secret, of 32 bytes ...."
SEED = bytes(range(32))
NOW = 1_700_000_000
ID = "evt_00000000000001f4"
BODY = b'{"type":"task.succeeded","data":{"metadata":{"n":1.10,"s":"\\u00e9"}}}'
PUBLIC_KEY = private_key(SEED).public_key()


def text_of(secret: bytes) -> str:
    return "whsec_" + base64.b64encode(secret).decode()


def sign(
    event_id: str, timestamp: int, body: bytes, secrets: tuple[bytes, ...], signing_key: bytes | None = None
) -> dict[str, str]:
    return Signer(secrets, signing_key).sign(event_id, timestamp, body)


def check(
    headers: dict[str, str], body: bytes = BODY, *, now: float = NOW, sent: bytes | None = None
) -> Verdict:
    return verify(headers, body, (NEW, OLD), PUBLIC_KEY, now, sent_body=sent)


def test_the_public_vector_of_the_standard_is_reproduced() -> None:
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', (secret,))
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.dictionaries(st.text(), st.text()), st.binary(min_size=24, max_size=64))
def test_the_independent_library_accepts_what_is_signed(document: dict[str, str], secret: bytes) -> None:
    body = json.dumps(document, ensure_ascii=False).encode(errors="replace")
    now = int(time.time())
    assert Webhook(text_of(secret)).verify(body, sign(ID, now, body, (secret,))) == json.loads(body)


def test_during_rotation_a_receiver_may_hold_either_secret_and_no_third() -> None:
    headers = sign(ID, int(time.time()), BODY, (NEW, OLD), SEED)
    assert headers["webhook-signature"].count("v1,") == 2
    for secret in (NEW, OLD):
        Webhook(text_of(secret)).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(text_of(b"a third secret, of 32 bytes .....")).verify(BODY, headers)


def test_v1a_is_ed25519_over_the_same_content_and_verifies_with_the_published_key() -> None:
    signature = sign(ID, NOW, BODY, (NEW,), SEED)["webhook-signature"].split(" ")[1]
    scheme, _, text = signature.partition(",")
    published = base64.b64decode(public_key_text(PUBLIC_KEY).removeprefix("whpk_"))
    key = Ed25519PublicKey.from_public_bytes(published)
    key.verify(base64.b64decode(text), f"{ID}.{NOW}.".encode() + BODY)
    with pytest.raises(InvalidSignature):
        key.verify(base64.b64decode(text), f"{ID}.{NOW + 1}.".encode() + BODY)
    assert scheme == "v1a"


def test_a_later_attempt_has_the_same_id_and_another_signature() -> None:
    signer = Signer((NEW,))
    first, second = signer.sign(ID, NOW, BODY), signer.sign(ID, NOW + 5, BODY)
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-signature"] != second["webhook-signature"]


@pytest.mark.parametrize("event_id", ["", "a.b", "a b", "a\r\nx: y", "é", "x" * 256])
def test_an_id_that_would_break_the_header_or_the_signature_is_not_signed(event_id: str) -> None:
    with pytest.raises(ValueError):
        sign(event_id, NOW, BODY, (NEW,))


def test_nothing_is_signed_without_a_secret() -> None:
    with pytest.raises(ValueError, match="unsigned"):
        Signer((), SEED)


@pytest.mark.parametrize(
    ("secrets", "seed", "scheme", "key"),
    [
        ((NEW,), None, "v1", 0),
        ((OLD,), None, "v1", 1),
        ((b"x" * 32,), SEED, "v1a", 0),
        ((NEW, OLD), SEED, "v1", 0),
    ],
)
def test_a_signature_of_ours_holds_and_the_verdict_tells_which(
    secrets: tuple[bytes, ...], seed: bytes | None, scheme: str, key: int
) -> None:
    verdict = check(sign(ID, NOW, BODY, secrets, seed))
    assert (verdict.valid, verdict.reason, verdict.scheme, verdict.key) == (True, "valid", scheme, key)


def test_header_names_are_in_any_case_and_foreign_signatures_are_passed_over() -> None:
    headers = {name.upper(): value for name, value in sign(ID, NOW, BODY, (NEW,)).items()}
    headers["WEBHOOK-SIGNATURE"] = f"v2,AAAA v1,!!! v1a,AAAA {headers['WEBHOOK-SIGNATURE']}"
    assert check(headers).valid


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_named(name: str) -> None:
    headers = sign(ID, NOW, BODY, (NEW,))
    del headers[name]
    verdict = check(headers)
    assert verdict.reason == "missing_header"
    assert name in verdict.detail


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("webhook-id", value) for value in ("a.b", "é", "\ud800", "a b", "x" * 300)),
        *(("webhook-timestamp", value) for value in ("now", "-1", "1.5", "٣", "1" * 13, "1e9", "0x10")),
        *(("webhook-signature", value) for value in ("v1", "v1,", "v1,*", "v2,AAAA", ",", "v1,é", "\ud800")),
    ],
)
def test_a_header_in_another_form_is_malformed(name: str, value: str) -> None:
    verdict = check({**sign(ID, NOW, BODY, (NEW,)), name: value})
    assert verdict.reason == "malformed"


@pytest.mark.parametrize(
    ("age", "reason"),
    [
        (0, "valid"),
        (300, "valid"),
        (-300, "valid"),
        (301, "clock_too_old"),
        (-301, "clock_too_new"),
        (10**9, "clock_too_old"),
    ],
)
def test_a_right_signature_outside_the_tolerance_is_a_matter_of_the_clock(age: int, reason: str) -> None:
    verdict = check(sign(ID, NOW, BODY, (NEW,)), now=NOW + age)
    assert (verdict.reason, verdict.valid, verdict.scheme) == (reason, reason == "valid", "v1")


@pytest.mark.parametrize(
    "changed",
    [
        BODY + b"\n",
        BODY + b"\r\n",
        b" " + BODY,
        b"\xef\xbb\xbf" + BODY,
        BODY.replace(b",", b", ").replace(b":", b": "),
    ],
)
def test_a_body_that_was_changed_in_a_usual_way_is_told_without_the_stored_one(changed: bytes) -> None:
    body = BODY.replace(b"1.10", b"1.1")
    verdict = check(sign(ID, NOW, body, (NEW,)), changed.replace(b"1.10", b"1.1"))
    assert (verdict.valid, verdict.reason) == (False, "body_changed")
    assert "raw bytes" in verdict.detail


def test_with_the_stored_body_any_change_is_told_and_where_it_begins() -> None:
    verdict = check(sign(ID, NOW, BODY, (NEW,)), BODY.replace(b"succeeded", b"succeedeD"), sent=BODY)
    assert verdict.reason == "body_changed"
    assert f"byte {BODY.index(b'succeeded') + 8} " in verdict.detail


@pytest.mark.parametrize("changed", [BODY[:-1], BODY + b"x", b""])
def test_a_cut_or_longer_body_is_told_by_the_stored_one(changed: bytes) -> None:
    assert check(sign(ID, NOW, BODY, (NEW,)), changed, sent=BODY).reason == "body_changed"


def test_a_foreign_key_is_told_by_the_stored_body_and_else_left_open() -> None:
    headers = sign(ID, NOW, BODY, (b"somebody else's secret of 32 byte",))
    assert check(headers, sent=BODY).reason == "key_mismatch"
    assert check(headers).reason == "no_match"


@pytest.mark.parametrize("key", [text_of(NEW).encode(), text_of(NEW).removeprefix("whsec_").encode()])
def test_a_secret_that_was_not_decoded_is_told(key: bytes) -> None:
    verdict = check(sign(ID, NOW, BODY, (key,)))
    assert verdict.reason == "key_mismatch"
    assert "decode" in verdict.detail


@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "Webhook-Timestamp", "webhook-signature", "x"]), st.text(max_size=40)
    ),
    st.binary(max_size=60),
)
def test_whatever_is_asked_there_is_a_verdict_and_it_is_not_valid(
    headers: dict[str, str], body: bytes
) -> None:
    assert not check(headers, body).valid


def test_deep_nesting_in_a_body_is_no_fault() -> None:
    assert check(sign(ID, NOW, BODY, (NEW,)), b"[" * 100_000).reason == "no_match"
