"""Delivery attempts are signed: Standard Webhooks headers over the exact bytes that are sent."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

from app.webhooks.signatures import EVENT_ID, ID, SIGNATURE, TIMESTAMP, private_key, signed_content


class Signer:
    """Signs with the keys in use, prepared once: copying a keyed HMAC costs two thirds of making one.

    Every secret in use signs, newest first, so that a receiver may hold any of them; `signing_key`, an
    Ed25519 seed of 32 bytes, adds a v1a signature (about 45 us, where a v1 costs 2). Thread-safe.
    """

    def __init__(self, secrets: tuple[bytes, ...], signing_key: bytes | None = None) -> None:
        if not secrets:
            raise ValueError("a webhook is never sent unsigned: at least one secret is needed")
        self._hmacs = [hmac.new(secret, digestmod=hashlib.sha256) for secret in secrets]
        self._private_key = private_key(signing_key) if signing_key is not None else None

    def sign(self, event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
        """Return the three headers of one attempt; `timestamp` is the attempt's, in whole Unix seconds."""
        if not EVENT_ID.match(event_id):
            raise ValueError(f"{event_id!r} cannot be a webhook-id")
        content = signed_content(event_id, timestamp, body)
        signatures = [self._v1(keyed, content) for keyed in self._hmacs]
        if self._private_key is not None:
            signatures.append("v1a," + b64encode(self._private_key.sign(content)).decode())
        return {ID: event_id, TIMESTAMP: str(timestamp), SIGNATURE: " ".join(signatures)}

    @staticmethod
    def _v1(keyed: hmac.HMAC, content: bytes) -> str:
        mac = keyed.copy()
        mac.update(content)
        return "v1," + b64encode(mac.digest()).decode()
