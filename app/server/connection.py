"""One client of the API's server: what it sent and nobody has read yet, and what it has not taken yet."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import Any

from gunicorn.http.wsgi import base_environ  # type: ignore[import-untyped]
from gunicorn.workers.gthread import TConn  # type: ignore[import-untyped]

from app.server.parser import Parser, is_read
from app.web.request import Environ

# How long the rest of a body that nobody read is thrown away, before the connection is closed instead.
DRAIN_SECONDS = 5.0


class Connection(TConn):  # type: ignore[misc]
    """`unsent`: what is left of an answer. `keep`: whether the client may ask again after it."""

    parser: Any = None
    unsent: bytes | memoryview = b""
    keep = True

    def init(self) -> None:
        """Before the first request is read."""
        if self.parser is None:
            self.sock.setblocking(True)
            self.parser = Parser(self.cfg, self.sock, self.client, self.base())

    def base(self) -> Environ:
        """What all environs of this connection have in common."""
        # Of a Unix socket there is a path (its own), and nothing (the client's).
        remote, own = (
            place if isinstance(place, tuple) else (place, "") for place in (self.client, self.server)
        )
        return {
            **base_environ(self.cfg),
            "wsgi.multithread": True,
            "wsgi.url_scheme": "http",
            "REMOTE_ADDR": remote[0],
            "REMOTE_PORT": str(remote[1]),
            "SCRIPT_NAME": "",
            "SERVER_NAME": own[0],
            "SERVER_PORT": str(own[1]),
            "SERVER_PROTOCOL": "HTTP/1.1",
        }

    def send(self, answer: bytes) -> None:
        """As much as the client takes at once; nobody waits until it takes the rest."""
        self.unsent = answer
        self.send_more()

    def send_more(self) -> None:
        sent = 0
        with contextlib.suppress(BlockingIOError):
            sent = self.sock.send(self.unsent, socket.MSG_DONTWAIT)
        self.unsent = memoryview(self.unsent)[sent:] if sent < len(self.unsent) else b""

    def give_up(self) -> None:
        self.unsent, self.keep = b"", False

    def was_read(self) -> bool:
        """Whether nothing of the request is still to come."""
        return is_read(self.parser.mesg.body)

    def drain(self) -> bool:
        """Throw away what nobody has read of the request. False: it is too much, or comes too slowly."""
        return self.was_read() or bool(self.parser.finish_body(deadline=time.monotonic() + DRAIN_SECONDS))

    def has_read_ahead(self) -> bool:
        """Whether a part of the next request is here already: no socket is readable for that."""
        return bool(self.parser.unreader.buf.getbuffer().nbytes)

    def has_work(self) -> bool:
        """Whether there is something to send, or to read."""
        if self.unsent or (self.parser and self.has_read_ahead()):
            return True
        look = select.poll()
        look.register(self.sock, select.POLLIN)
        return bool(look.poll(0))
