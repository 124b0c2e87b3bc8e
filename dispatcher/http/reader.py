"""Bytes from a receiver, bounded by a budget of bytes and by the attempt's deadline on every receive.

This is not http.client, which takes the end of a cut connection for the end of the headers (a 200 that
never came whole looks like one), reads any number of 1xx responses, and spends more on parsing headers than
all else in an attempt costs; nor urllib3, which is built on it.
"""

from __future__ import annotations

import time

from dispatcher.http.wire import Deadline, Wire

_RECEIVE = 16 * 1024


class PeerClosed(Exception):
    """The receiver ended the connection in the middle of a response, or before it."""


class OverBudget(Exception):
    """The receiver sent more than is read."""


class Reader:
    """A buffer over a wire. Every take may raise PeerClosed, OverBudget, TimeoutError or OSError."""

    __slots__ = ("_at", "_budget", "_buffer", "_deadline", "_wire", "first_byte")

    def __init__(self, wire: Wire, deadline: Deadline, budget: int) -> None:
        self._wire = wire
        self._deadline = deadline
        self._budget = budget
        self._buffer = b""
        self._at = 0
        self.first_byte: float | None = None

    def unread(self) -> int:
        """Return how many bytes have arrived but are not taken."""
        return len(self._buffer) - self._at

    def set_budget(self, budget: int) -> None:
        """Bound what may be taken from now on, what is unread included."""
        self._budget = budget - self.unread()

    def take_line(self) -> bytes:
        """Return one line with its end, LF or CRLF."""
        searched = self._at
        while (end := self._buffer.find(b"\n", searched)) < 0:
            unread = self.unread()
            self._fill()
            searched = self._at + unread
        return self._take(end + 1 - self._at)

    def take_some(self, most: int) -> bytes:
        """Return what there is: at least one byte, at most `most`."""
        if not self.unread():
            self._fill()
        return self._take(min(most, self.unread()))

    def _take(self, count: int) -> bytes:
        taken = self._buffer[self._at : self._at + count]
        self._at += count
        return taken

    def _fill(self) -> None:
        """Wait for bytes and add them to the buffer."""
        if self._budget <= 0:
            raise OverBudget
        data = self._wire.receive(min(_RECEIVE, self._budget), self._deadline)
        if not data:
            raise PeerClosed
        if self.first_byte is None:
            self.first_byte = time.monotonic()
        self._budget -= len(data)
        self._buffer = self._buffer[self._at :] + data
        self._at = 0
