"""A signed test event is sent to one address exactly as the dispatcher would, and explained."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

from app.settings import Settings, SettingsError, load_settings, require_delivery
from app.web.schemas import moment
from dispatcher.http.attempt import Attempt
from dispatcher.http.sender import Sender
from dispatcher.http.signer import Signer
from rvq.errors import CommandError
from rvq.tables import facts

SHOWN_ANSWER = 500


def ping(url: str, environ: Mapping[str, str], *, as_json: bool = False) -> int:
    """Send it; return 0 when the receiver took it. It needs the dispatcher's settings and no database."""
    settings = load_settings(environ)
    if missing := require_delivery(settings):
        raise SettingsError(missing)
    if any(not char.isprintable() for char in url):
        raise CommandError("the address has control characters")
    event_id = f"evt_ping_{secrets.token_hex(8)}"
    attempt = _send(settings, event_id, url)
    found = [("webhook-id", event_id), *_explained(attempt)]
    print(json.dumps(dict(found)) if as_json else facts(found))
    return 0 if attempt.outcome == "delivered" else 1


def _send(settings: Settings, event_id: str, url: str) -> Attempt:
    signer = Signer(settings.webhook_secrets, settings.webhook_signing_key)
    sender = Sender(settings.webhook_allowed_hosts, settings.webhook_private_hosts, signer)
    now = moment(datetime.now(UTC))
    body = {"type": "ping", "timestamp": now, "data": {"message": "a test by rvq admin ping; no task ended"}}
    try:
        return sender.send(event_id, url, json.dumps(body).encode())
    finally:
        sender.close()


def _explained(attempt: Attempt) -> list[tuple[str, object]]:
    detail = attempt.as_detail()
    phases = detail.pop("phases_ms", {})
    found: list[tuple[str, object]] = [("outcome", attempt.outcome), ("status", attempt.status_code)]
    found += [(name.replace("_", " "), value) for name, value in detail.items()]
    if isinstance(phases, dict):
        found += [(name.replace("_", " "), f"{milliseconds:.1f} ms") for name, milliseconds in phases.items()]
    if attempt.response_body:
        found.append(("answer", attempt.response_body[:SHOWN_ANSWER].decode("utf-8", "replace")))
    return found
