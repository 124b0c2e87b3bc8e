"""Standard Webhooks 1.0 signatures: the primitives, the keys' text forms, and a check that says why not.

The dispatcher signs with this leaf module; the API verifies with it and publishes the public key.
What is signed is `id.timestamp.body`, the body being the exact bytes sent. `v1` is HMAC-SHA256 and `v1a`
Ed25519, both in base64; a header carries several signatures, separated by spaces, while keys rotate.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

TOLERANCE_SECONDS: Final = 300
PUBLIC_KEY_PREFIX: Final = "whpk_"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# The standard forbids a dot in the id (it separates what is signed); the rest keeps a header a header.
EVENT_ID: Final = re.compile(r"\A[A-Za-z0-9_-]{1,255}\Z")
_TIMESTAMP: Final = re.compile(r"\A[0-9]{1,12}\Z")

Reason = Literal[
    "valid",  # by a key of ours, within the tolerance
    "missing_header",  # one of the three is not there
    "malformed",  # a header is there, but not in the standard's form
    "clock_too_old",  # right signature, but the timestamp is too long ago
    "clock_too_new",  # right signature, but the timestamp is in the future
    "body_changed",  # signed by us, but over other body bytes
    "key_mismatch",  # the body is what was sent, but no key of ours made this signature
    "no_match",  # no key of ours made it over this body: either may be wrong
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` found; `scheme` and `key` (0 is the newest secret) tell which signature held."""

    valid: bool
    reason: Reason
    detail: str
    scheme: Literal["v1", "v1a"] | None = None
    key: int | None = None


def signed_content(event_id: str, timestamp: int, body: bytes) -> bytes:
    """Return the bytes that every signature is over."""
    return f"{event_id}.{timestamp}.".encode() + body


def private_key(seed: bytes) -> Ed25519PrivateKey:
    """Return the signing key of the settings' seed, 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed)


def public_key_text(key: Ed25519PublicKey) -> str:
    """Return `whpk_` and base64 of the 32 bytes, as published to partners."""
    return PUBLIC_KEY_PREFIX + base64.b64encode(key.public_bytes_raw()).decode()


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: tuple[bytes, ...],
    public_key: Ed25519PublicKey | None,
    now: float,
    tolerance: float = TOLERANCE_SECONDS,
    sent_body: bytes | None = None,
) -> Verdict:
    """Check whether any signature in `headers` (names in any case) is ours over `body`; say why not.

    `now` is in Unix seconds. `sent_body`: the bytes stored for this webhook-id, when the caller has them;
    they tell a changed body from a foreign key. Without them, only the usual ways to change a body are tried.
    """
    found = {name.lower(): value.strip() for name, value in headers.items()}
    for name in (ID, TIMESTAMP, SIGNATURE):
        if not found.get(name):
            return Verdict(False, "missing_header", f"there is no {name} header")
    if EVENT_ID.match(found[ID]) is None:
        return Verdict(False, "malformed", f"{ID} is not an id of ours")
    if _TIMESTAMP.match(found[TIMESTAMP]) is None:
        return Verdict(False, "malformed", f"{TIMESTAMP} is not a whole number of seconds")
    signatures = list(_signatures(found[SIGNATURE]))
    if not signatures:
        return Verdict(False, "malformed", f"{SIGNATURE} has no v1 or v1a signature, such as v1,<base64>")
    timestamp = int(found[TIMESTAMP])
    keys = _Keys(f"{found[ID]}.{found[TIMESTAMP]}.".encode(), signatures, secrets, public_key)
    signer = keys.signer_of(body)
    if signer is None:
        return _why_no_match(keys, body, sent_body)
    return _check_clock(timestamp, now, tolerance, *signer)


@dataclass(frozen=True, slots=True)
class _Keys:
    """One message's signatures and the keys that may have made them."""

    prefix: bytes
    signatures: list[tuple[str, bytes]]
    secrets: tuple[bytes, ...]
    public_key: Ed25519PublicKey | None

    def signer_of(self, body: bytes) -> tuple[Literal["v1", "v1a"], int] | None:
        """Return the scheme and the key's index, if one of ours made one of the signatures over `body`."""
        content = self.prefix + body
        for scheme, signature in self.signatures:
            if scheme == "v1":
                for index, secret in enumerate(self.secrets):
                    if hmac.compare_digest(hmac.digest(secret, content, hashlib.sha256), signature):
                        return "v1", index
            elif self.public_key is not None and _is_signed(self.public_key, content, signature):
                return "v1a", 0
        return None

    def undecoded(self) -> _Keys:
        """Return the same with each secret's text as the key: the receivers' commonest mistake."""
        texts = [base64.b64encode(secret) for secret in self.secrets]
        return _Keys(self.prefix, self.signatures, (*texts, *(b"whsec_" + text for text in texts)), None)


def _check_clock(
    timestamp: int, now: float, tolerance: float, scheme: Literal["v1", "v1a"], key: int
) -> Verdict:
    age = now - timestamp
    if abs(age) <= tolerance:
        return Verdict(True, "valid", f"the {scheme} signature holds", scheme, key)
    when = f"{abs(age):.0f} s {'ago' if age > 0 else 'ahead'}, more than {tolerance:.0f} s"
    reason: Reason = "clock_too_old" if age > 0 else "clock_too_new"
    return Verdict(False, reason, f"the {scheme} signature holds, but its time is {when}", scheme, key)


def _why_no_match(keys: _Keys, body: bytes, sent_body: bytes | None) -> Verdict:
    if keys.undecoded().signer_of(body):
        detail = "signed with the secret's text: take off whsec_ and decode the base64 to get the key"
        return Verdict(False, "key_mismatch", detail)
    if sent_body == body:
        detail = "the body is what was sent; the key, webhook-id or webhook-timestamp is another"
        return Verdict(False, "key_mismatch", detail)
    if sent_body is not None and keys.signer_of(sent_body):
        pairs = enumerate(zip(body, sent_body, strict=False))
        same = next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(body), len(sent_body)))
        detail = f"the body differs from what was sent from byte {same} on ({len(sent_body)} bytes were sent)"
        return Verdict(False, "body_changed", detail)
    for how, variant in _usual_changes(body):
        if keys.signer_of(variant):
            return Verdict(False, "body_changed", f"the body was {how}; verify the raw bytes as received")
    return Verdict(False, "no_match", "no key in use made this signature over this id, timestamp and body")


def _usual_changes(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the body with what frameworks usually do to it undone, and what that was."""
    yield "given white space around it", body.strip()
    yield "given a line end", body.rstrip(b"\r\n")
    yield "given other line ends", body.replace(b"\r\n", b"\n")
    yield "given a byte order mark", body.removeprefix(b"\xef\xbb\xbf")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return
    for separators in ((",", ":"), (", ", ": ")):
        for ascii_only in (True, False):
            text = json.dumps(document, separators=separators, ensure_ascii=ascii_only)
            yield "parsed and written again", text.encode(errors="surrogatepass")


def _signatures(header: str) -> Iterator[tuple[str, bytes]]:
    """Yield the (scheme, bytes) pairs of a header; other schemes and broken base64 are skipped."""
    for entry in header.split(" ")[:32]:
        scheme, _, text = entry.partition(",")
        if text and scheme in ("v1", "v1a"):
            try:
                yield scheme, base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                continue


def _is_signed(key: Ed25519PublicKey, content: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True
