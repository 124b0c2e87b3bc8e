"""Checking a signature on a partner's behalf, and publishing the public keys."""

from __future__ import annotations

import time

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

from app import ids
from app.partner.schemas import Verdict, WebhookKey, WebhookKeys
from app.partner.store import Store
from app.settings import Settings
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Routes
from app.webhooks import signatures

routes = Routes()


class VerifyBody(Struct, forbid_unknown_fields=True):
    """A webhook as it was received: `headers` by name (in any case), and the raw body as text."""

    headers: dict[str, str]
    body: str


DECODER = msgspec.json.Decoder(VerifyBody)


@routes.post("/v1/webhooks/verify", Verdict, body=VerifyBody)
def verify_webhook(context: Context[Store], request: Request) -> Response:
    """Check a webhook that you received: does its signature hold, and if not, why."""
    given = request.json(DECODER).value
    event_id = next((v for name, v in given.headers.items() if name.lower() == signatures.ID), "").strip()
    number = ids.parse_event_id(event_id)
    sent = None if number is None else context.store.read_event(number)
    verdict = signatures.verify(
        given.headers,
        given.body.encode(),
        context.settings.webhook_secrets,
        _public_key(context.settings),
        time.time(),
        sent_body=None if sent is None else sent.encode(),
    )
    return json_response(verdict)


@routes.get("/v1/webhooks/keys", WebhookKeys)
def list_webhook_keys(context: Context[Store], _request: Request) -> Response:
    """List the public keys of v1a signatures."""
    key = _public_key(context.settings)
    keys = [WebhookKey("v1a", signatures.public_key_text(key))] if key else []
    return json_response(WebhookKeys(keys))


def _public_key(settings: Settings) -> Ed25519PublicKey | None:
    seed = settings.webhook_signing_key
    return signatures.private_key(seed).public_key() if seed else None
