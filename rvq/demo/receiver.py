"""The partner's end is a small HTTP server that checks every webhook with a library that is not ours."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError


class Receiver:
    """Listens on 127.0.0.1; keeps the events that carried a good signature and counts the others."""

    def __init__(self, secret: str) -> None:
        self.forged = 0
        self.events: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self._webhook = Webhook(secret)
        self._arrived = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, name="receiver", daemon=True).start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def wait(self, seconds: float) -> bool:
        """Return whether a verified webhook arrived in time."""
        return self._arrived.wait(seconds)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Take one webhook; return the status to respond with: 204, or 401 for a wrong signature."""
        try:
            self._webhook.verify(body, headers)
        except WebhookVerificationError:
            self.forged += 1
            return 401
        self.ids.append(headers["webhook-id"])
        self.events.append(json.loads(body))
        self._arrived.set()
        return 204

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self.take

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(take({name.lower(): value for name, value in self.headers.items()}, body))
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: the demo tells what arrived."""

        return Endpoint
