"""A partner's receiver on a real socket: it records what comes, and answers as the test says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"ok"


@dataclass(frozen=True)
class Received:
    """One request. `at` is of the monotonic clock."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verify(self, secret: str) -> Any:
        """The body, if the independent library finds the signature right; raises if not."""
        return Webhook(secret).verify(self.body, dict(self.headers))


class Receiver:
    """`answer` is an answer, or is called for each request in its own thread; first `hold` is waited for."""

    def __init__(self, answer: Answer | Callable[[Received], Answer] = Answer()) -> None:
        self.received: list[Received] = []
        self.hold = threading.Event()
        self.hold.set()
        self._answer = answer
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"receiver": self})
        ThreadingHTTPServer.daemon_threads = True
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def host(self) -> str:
        """As the database knows it."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/hook") -> str:
        return f"http://{self.host}{path}"

    def ids(self) -> list[str]:
        with self._lock:
            return [received.id for received in self.received]

    def take(self, received: Received) -> Answer:
        with self._lock:
            self.received.append(received)
        self.hold.wait(60)
        return self._answer if isinstance(self._answer, Answer) else self._answer(received)


class _Handler(BaseHTTPRequestHandler):
    """Keeps connections, and says nothing on standard error."""

    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.receiver.take(Received(self.path, headers, body))
        try:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass
