"""Gunicorn's worker: sends the app's responses in one packet, and problem+json for what is not HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from gunicorn import SERVER, util  # type: ignore[import-untyped]
from gunicorn.http import wsgi  # type: ignore[import-untyped]

from app.server.connection import Connection
from app.server.loop import ThreadedWorker
from app.server.parser import PlainRequest
from app.web.request import Environ


class Packet:
    """The app's response as one packet. Gunicorn's own class would check our headers again and send two."""

    __slots__ = ("_head",)

    def __init__(self, *_of_gunicorn: Any) -> None:
        self._head = ""

    def start_response(self, status: str, headers: list[tuple[str, str]], _exc_info: object = None) -> None:
        """Keep the status and the headers, which are ours and hold no line ends."""
        fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
        self._head = f"HTTP/1.1 {status}\r\nServer: {SERVER}\r\nDate: {util.http_date()}\r\n{fields}"

    def encode(self, body: Iterable[bytes], keep: bool) -> bytes:
        """Return head and body; iterating the body may be what calls start_response."""
        data = b"".join(body)
        connection = "keep-alive" if keep else "close"
        return f"{self._head}Connection: {connection}\r\n\r\n".encode("latin-1") + data


class Worker(ThreadedWorker):
    """The worker class that serves the API; gunicorn.conf.py has its settings."""

    def handle_request(self, request: Any, connection: Connection) -> bool:
        packet, environ = self._begin(request, connection)
        body = self.wsgi(environ, packet.start_response)
        send = partial(self._send, request, packet, body)
        when_ready = getattr(body, "when_ready", None)  # only a deferred response has it
        if when_ready is None or not connection.was_read():
            return send(connection)
        when_ready(partial(self._send_deferred, send, connection))
        return False

    def _send(self, request: Any, packet: Packet, body: Iterable[bytes], connection: Connection) -> bool:
        keep = self.alive and self.has_room() and not request.should_close()
        connection.send(packet.encode(body, keep))
        connection.keep = keep and connection.drain()
        return True

    def _send_deferred(self, send: Callable[[Connection], bool], connection: Connection) -> None:
        self.guarded(connection, send)
        self.put_back(connection)

    def _begin(self, request: Any, connection: Connection) -> tuple[Packet, Environ]:
        if isinstance(request, PlainRequest):
            return Packet(), request.environ
        packet, environ = wsgi.create(
            request, connection.sock, connection.client, connection.server, self.cfg, response_class=Packet
        )
        environ["wsgi.multithread"] = True
        return packet, environ
