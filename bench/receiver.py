"""The partner's end of the gate takes webhooks, checks every signature and keeps what is needed to reconcile.

    GATE_WEBHOOK_SECRET=whsec_... python -m bench.receiver --port 9000

Its verification is its own, written from the Standard Webhooks text and not from the dispatcher's code.
It is controlled on the same port: GET /control/report, GET /control/count, POST /control/reset?since=SECONDS.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import calendar
import hashlib
import hmac
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import msgspec

TOLERANCE_SECONDS = 300
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Data(msgspec.Struct):
    task_id: str


class Event(msgspec.Struct):
    timestamp: str
    data: Data


class Received(msgspec.Struct):
    """Columns of the valid webhooks since the reset: arrival and event time (Unix seconds), ids.

    `invalid`: how many were refused, by reason, since the reset.
    """

    arrived: list[float] = []
    happened: list[float] = []
    event_ids: list[str] = []
    task_ids: list[str] = []
    invalid: dict[str, int] = {}


EVENT = msgspec.json.Decoder(Event)


@dataclass
class Ledger:
    """`total`: valid webhooks with an id not seen before, since the process began."""

    secrets: list[bytes]
    received: Received = field(default_factory=Received)
    total: int = 0
    _seen: set[str] = field(default_factory=set)
    _minutes: dict[str, float] = field(default_factory=dict)

    def take(self, headers: dict[bytes, bytes], body: bytes) -> str | None:
        """Record one webhook; return why it is refused, or None."""
        now = time.time()
        reason = self.check(headers, body, now)
        if reason is None:
            try:
                self._keep(headers[b"webhook-id"].decode(), EVENT.decode(body), now)
            except (msgspec.DecodeError, ValueError):
                reason = "not an event"
        if reason is not None:
            self.received.invalid[reason] = self.received.invalid.get(reason, 0) + 1
        return reason

    def check(self, headers: dict[bytes, bytes], body: bytes, now: float) -> str | None:
        """Return why Standard Webhooks would refuse it, or None.

        A signature is the HMAC-SHA256 over id.timestamp.body by any of our secrets, within 5 minutes.
        """
        try:
            event_id, stamp = headers[b"webhook-id"], headers[b"webhook-timestamp"]
            sent = headers[b"webhook-signature"]
            if abs(now - int(stamp)) > TOLERANCE_SECONDS:
                return "timestamp"
        except (KeyError, ValueError):
            return "header missing or malformed"
        message = b"%b.%b.%b" % (event_id, stamp, body)
        for secret in self.secrets:
            expected = b"v1," + base64.b64encode(hmac.digest(secret, message, hashlib.sha256))
            if any(hmac.compare_digest(expected, signature) for signature in sent.split(b" ")):
                return None
        return "signature"

    def reset(self, since: float) -> None:
        """Forget what happened before `since` (Unix seconds), and refusals."""
        old = self.received
        kept = [place for place, happened in enumerate(old.happened) if happened >= since]
        self.received = Received(
            [old.arrived[place] for place in kept],
            [old.happened[place] for place in kept],
            [old.event_ids[place] for place in kept],
            [old.task_ids[place] for place in kept],
        )

    def _keep(self, event_id: str, event: Event, now: float) -> None:
        received = self.received
        received.arrived.append(now)
        received.happened.append(self._unix(event.timestamp))
        received.event_ids.append(event_id)
        received.task_ids.append(event.data.task_id)
        if event_id not in self._seen:
            self._seen.add(event_id)
            self.total += 1

    def _unix(self, text: str) -> float:
        """Convert RFC 3339 in UTC to Unix seconds; a minute is worked out once. Raises ValueError."""
        minute, rest = text[:16], text[17:]
        start = self._minutes.get(minute)
        if start is None:
            start = self._minutes[minute] = calendar.timegm(time.strptime(minute, "%Y-%m-%dT%H:%M"))
        if not rest.endswith("Z"):
            raise ValueError(f"not UTC: {text}")
        return start + float(rest[:-1])


class Connection(asyncio.Protocol):
    """One kept connection: requests with a Content-Length, one after the other."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            line, *fields = self._received[:end].split(b"\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (f.partition(b":") for f in fields)}
            size = end + 4 + int(headers.get(b"content-length", b"0"))
            if len(self._received) < size:
                return
            body, self._received = self._received[end + 4 : size], self._received[size:]
            self._transport.write(self._respond(line, headers, body))

    def _respond(self, line: bytes, headers: dict[bytes, bytes], body: bytes) -> bytes:
        path, _, query = line.split(b" ")[1].decode().partition("?")
        if path == "/control/report":
            return _with_body(msgspec.json.encode(self._ledger.received))
        if path == "/control/count":
            return _with_body(str(self._ledger.total).encode())
        if path == "/control/reset":
            self._ledger.reset(float(parse_qs(query)["since"][0]))
            return OK
        if self._ledger.take(headers, body) is None:
            return OK
        return b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


def decoded(secrets: str) -> list[bytes]:
    """Decode `whsec_` secrets, separated by commas."""
    return [base64.b64decode(secret.strip().removeprefix("whsec_")) for secret in secrets.split(",")]


def duplicates(received: Received) -> int:
    """Return how many webhooks came again under an id that had come before."""
    return sum(count - 1 for count in Counter(received.event_ids).values())


def _with_body(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


async def listen(port: int, ledger: Ledger, ready: Callable[[], object] = lambda: None) -> None:
    """Take webhooks without end; `ready` is called once they can come."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(ledger), "127.0.0.1", port, backlog=512)
    ready()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.receiver")
    parser.add_argument("--port", type=int, default=9000)
    options = parser.parse_args()
    asyncio.run(listen(options.port, Ledger(decoded(os.environ["GATE_WEBHOOK_SECRET"]))))


if __name__ == "__main__":
    main()
