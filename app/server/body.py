"""The body of a request as the app reads it: `wsgi.input` under our worker and under Gunicorn's own threads.

Gunicorn's readers stay usable after a body was found broken, keep trailers without bound, and wait for ever.
This one knows that framing is lost, and limits the time: to STALL_SECONDS and one more for each RATE bytes.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

from gunicorn.http.errors import NoMoreData  # type: ignore[import-untyped]

from app.server.framing import BadFraming, Chunked, Sized

# A client that stalls so long in the middle of a request is cut off.
STALL_SECONDS = 20
RATE = 64 * 1024


class BodyBroken(NoMoreData):  # type: ignore[misc]
    """No more can be read from this connection. For Gunicorn it is a client that went away."""


class RequestBody(io.RawIOBase):
    """A body that comes from the connection. Once `is_broken`, nothing more of the connection can be read.

    `invite`, where the client waits for leave to send the body, gives it, and is called once. `on_broken` is
    called when the framing is lost.
    """

    def __init__(
        self,
        unreader: Any,
        framing: Sized | Chunked,
        invite: Callable[[], None] | None = None,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        self.is_broken = False
        self._unreader = unreader
        self._framing = framing
        self._invite = invite
        self._on_broken = on_broken
        self._ready = b""
        self._deadline = 0.0

    @property
    def is_read(self) -> bool:
        """Whether nothing of it is still to come from the client."""
        return self._framing.is_done

    @property
    def can_be_discarded(self) -> bool:
        """Whether its end can be found by reading on: not if the client may never send it."""
        return not self.is_broken and (self._invite is None or self.is_read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        """Return `size` bytes, or all, or fewer at the end. Raise BodyBroken if there is no end."""
        wanted = -1 if size is None else size
        gathered = io.BytesIO()
        gathered.write(self._ready)
        while not self._framing.is_done and (wanted < 0 or gathered.tell() < wanted):
            gathered.write(self._receive())
        data = gathered.getvalue()
        if wanted < 0 or len(data) <= wanted:
            self._ready = b""
            return data
        self._ready = data[wanted:]
        return data[:wanted]

    def discard(self, most_bytes: int, seconds: float) -> bool:
        """Read to the end and forget it; return False if it is too much, too slow, or has no end."""
        if not self.can_be_discarded:
            return False
        self._ready = b""
        latest = time.monotonic() + seconds
        try:
            while not self.is_read and most_bytes > 0 and (rest := latest - time.monotonic()) > 0:
                self._unreader.sock.settimeout(rest)
                most_bytes -= len(self._receive())
            return self.is_read
        except BodyBroken:
            return False
        finally:
            self._unreader.sock.settimeout(None)

    def _receive(self) -> bytes:
        """Return what comes next of the body, which may be nothing yet."""
        if self.is_broken:
            raise BodyBroken("the body is broken")
        try:
            data = self._read_connection()
            if not data:
                raise BadFraming("the body was cut")
            content, behind = self._framing.feed(data)
        except (OSError, BadFraming) as error:
            self.is_broken = True
            if self._on_broken:
                self._on_broken()
            raise BodyBroken(str(error)) from error
        if behind:
            self._unreader.unread(behind)
        self._deadline += len(data) / RATE
        return content

    def _read_connection(self) -> bytes:
        now = time.monotonic()
        if not self._deadline:
            self._deadline = now + STALL_SECONDS
        if now > self._deadline:
            raise TimeoutError("the body came too slowly")
        data: bytes = self._unreader.take_buffered()
        if data:
            return data
        if self._invite:
            invite, self._invite = self._invite, None
            invite()
        return bytes(self._unreader.chunk())
