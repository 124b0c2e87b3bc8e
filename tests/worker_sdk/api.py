"""RVQ's worker API on a real socket: `FakeRVQ` behind http.server, with faults on demand."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from worker_sdk import Answer, Settings
from worker_sdk.testing import FakeRVQ

TOKEN = "worker-token-0123456789"
PATIENCE = 20.0  # seconds until a test that waits for something gives up


@dataclass(frozen=True)
class Request:
    verb: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """Respond with this, without doing anything."""

    status: int
    body: bytes = b'{"code": "scripted", "detail": "as the test wants it"}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """Close the connection: before the work is done, or after it so that the response is lost."""

    after_work: bool = False


@dataclass(frozen=True)
class Cut:
    """Do the work, but send only half of the response."""


@dataclass(frozen=True)
class Hold:
    """Do the work, then hold the response back until the event is set."""

    until: threading.Event


Fault = Reply | Drop | Cut | Hold | None
"""None means: respond as usual."""


class ScriptedAPI:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.rvq = FakeRVQ()
        self.requests: list[Request] = []
        self.judge: Callable[[Request], Fault] = lambda _: None
        """Decides about each request for which no script is left."""
        self._scripts: dict[str, deque[Fault]] = defaultdict(deque)
        self._changed = threading.Condition()
        self._tls = tls
        self._connections: set[socket.socket] = set()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self._port}"

    @property
    def settings(self) -> Settings:
        return Settings(self.url, TOKEN)

    @property
    def environ(self) -> dict[str, str]:
        return {"RVQ_URL": self.url, "RVQ_WORKER_TOKEN": TOKEN}

    def script(self, verb: str, *faults: Fault) -> None:
        """Set what the next requests of this verb get, in turn."""
        self._scripts[verb].extend(faults)

    def calls(self, verb: str) -> list[Request]:
        return [request for request in self.requests if request.verb == verb]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked after every request."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), "the worker never got there"

    def up(self) -> None:
        """Listen, on the same port as before."""
        api = self

        class Exchange(_Exchange):
            owner = api

        self._server = _Server(("localhost", self._port), Exchange)
        self._port = self._server.server_address[1]
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections, and cut those that are open."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        for connection in list(self._connections):
            _shut(connection)

    def answer(self, request: Request) -> tuple[Fault, Answer]:
        with self._changed:
            self.requests.append(request)
            script = self._scripts[request.verb]
            fault = script.popleft() if script else self.judge(request)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            fault = Reply(401)
        if isinstance(fault, Reply) or fault == Drop():
            return fault, Answer(0, b"")
        return fault, self.rvq.post(f"/v1/sub_tasks/{request.verb}", request.body)

    def answered(self) -> None:
        with self._changed:
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the test has cut."""


class _Exchange(BaseHTTPRequestHandler):
    owner: ScriptedAPI
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.owner._connections.add(self.connection)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(self.path.rsplit("/", 1)[-1], dict(self.headers), body)
        fault, answer = self.owner.answer(request)
        if isinstance(fault, Drop):
            _shut(self.connection)
            self.close_connection = True
        elif isinstance(fault, Reply):
            self._send(fault.status, fault.body, fault.headers)
        else:
            if isinstance(fault, Hold):
                fault.until.wait(PATIENCE)
            self._send(answer.status, answer.body, {}, cut=isinstance(fault, Cut))
        self.owner.answered()

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            _shut(self.connection)
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed already
        connection.shutdown(socket.SHUT_RDWR)
