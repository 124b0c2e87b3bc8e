"""An HTTP proxy on loopback with a fault of the test's choice."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# What to do with a request to this path: seconds to wait, and how often to pass it on (0: swallow it).
Rule = Callable[[str], tuple[float, int]]
CONNECTION_HEADERS = ("host", "connection", "content-length", "transfer-encoding")


def as_it_is(_path: str) -> tuple[float, int]:
    return 0.0, 1


class Once:
    """A rule that treats the first request to `path` in its own way, and all others as they are."""

    def __init__(self, times: int, path: str) -> None:
        self._path = path
        self._times = times
        self._lock = threading.Lock()
        self._done = False

    def __call__(self, path: str) -> tuple[float, int]:
        if path != self._path:
            return as_it_is(path)
        with self._lock:
            first, self._done = not self._done, True
        return (0.0, self._times) if first else as_it_is(path)


@contextlib.contextmanager
def proxy(upstream: str, rule: Rule = as_it_is, port: int = 0) -> Iterator[str]:
    """The URL of a proxy for `upstream` (scheme and host only count)."""

    connections: set[socket.socket] = set()

    class Handler(_Handler):
        target = urlsplit(upstream).netloc
        kept = connections
        action = staticmethod(rule)

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            # A kept connection would go on being served by this proxy when there is another at the port.
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: str
    action: Rule
    kept: set[socket.socket]

    def setup(self) -> None:
        super().setup()
        self.kept.add(self.connection)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        wait, times = self.action(self.path)
        time.sleep(wait)
        status, answer = 200, b""
        for _ in range(times):
            status, answer = self._pass_on(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a load generator that has stopped
            self.wfile.write(answer)

    def do_GET(self) -> None:
        self.do_POST()

    def _pass_on(self, body: bytes) -> tuple[int, bytes]:
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in CONNECTION_HEADERS
        }
        connection = http.client.HTTPConnection(self.target, timeout=30)
        with contextlib.closing(connection):
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def log_message(self, *_: object) -> None:
        """Says nothing."""
