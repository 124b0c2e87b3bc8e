"""One client's connection: what it sent that is not read yet, and what of a response is not sent yet."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http.wsgi import base_environ  # type: ignore[import-untyped]
from gunicorn.workers.gthread import TConn  # type: ignore[import-untyped]

from app.server.parser import Parser, is_read
from app.web.request import Environ

# The rest of a body that no handler read is discarded, within these bounds; then the connection is closed.
# The bytes are more than nginx lets pass: it says 502 where the API closes before it has read all.
DRAIN_SECONDS = 5.0
DRAIN_BYTES = 32 << 20


class Connection(TConn):  # type: ignore[misc]
    """A client's connection. `unsent` is the rest of a response; `keep`: another request may follow it."""

    parser: Any = None
    unsent: bytes | memoryview = b""
    keep = True
    # By the monotonic clock, while the head of a request has not come whole; else 0.
    head_began_at = 0.0

    def init(self) -> None:
        """Make the parser, before the first request is read."""
        if self.parser is None:
            self.sock.setblocking(True)
            self.parser = Parser(self.cfg, self.sock, self.client, self.base())

    def base(self) -> Environ:
        """Return what all environs of this connection have in common."""
        # On a Unix socket, ours has a path for an address, and the client's has nothing.
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

    def next_request(self) -> Any:
        """Return the next request. Raise HeadIncomplete if more has to come first."""
        self.init()
        try:
            return next(self.parser)
        finally:
            is_incomplete = bool(self.parser.incomplete)
            self.head_began_at = (self.head_began_at or time.monotonic()) if is_incomplete else 0.0

    def send(self, response: bytes) -> None:
        """Send as much as the client takes at once; no thread waits until it takes the rest."""
        self.unsent = response
        self.send_more()

    def send_more(self) -> None:
        sent = 0
        with contextlib.suppress(BlockingIOError):
            sent = self.sock.send(self.unsent, socket.MSG_DONTWAIT)
        self.unsent = memoryview(self.unsent)[sent:] if sent < len(self.unsent) else b""

    def discard_response(self) -> None:
        """Drop what is not sent yet, and let the connection be closed."""
        self.unsent, self.keep = b"", False

    def was_read(self) -> bool:
        """Return whether nothing of the request is still to come."""
        return is_read(self.parser.mesg.body)

    def drain(self) -> bool:
        """Discard the unread rest of the request; return False if it is too much, or comes too slowly."""
        return self.was_read() or bool(self.parser.mesg.body.discard(DRAIN_BYTES, DRAIN_SECONDS))

    def has_read_ahead(self) -> bool:
        """Return whether a request is in the buffer, which makes no socket readable; the rest may follow."""
        return not self.parser.incomplete and bool(self.parser.unreader.buf.getbuffer().nbytes)

    def close(self, graceful: bool = False) -> None:
        """Close the connection; if `graceful`, what the client still sends does not cut off the response."""
        if graceful:
            self.sock.setblocking(True)
            util.close_graceful(self.sock, max_drain=DRAIN_BYTES)
        else:
            util.close(self.sock)

    def has_work(self) -> bool:
        """Return whether there is something to send or to read."""
        if self.unsent or (self.parser and self.has_read_ahead()):
            return True
        poller = select.poll()
        poller.register(self.sock, select.POLLIN)
        return bool(poller.poll(0))
