"""Bytes from a receiver: bounded by a budget of bytes and by the attempt's deadline, on every receive.

Not http.client: it takes the end of a cut connection for the end of the headers (a 200 that never came
whole looks like one), reads any number of 1xx answers, and spends more on parsing headers than all else in
an attempt costs. Not urllib3, which is built on it.
"""

from __future__ import annotations

import time

from dispatcher.http.deadline import Deadline
from dispatcher.http.wire import Wire

_RECEIVE = 16 * 1024


class PeerClosed(Exception):
    """The receiver ended the connection in the middle of an answer, or before it."""


class OverBudget(Exception):
    """The receiver sent more than is read."""


class Reader:
    """A buffer over a socket. Every take may raise PeerClosed, OverBudget, TimeoutError or OSError."""

    __slots__ = ("_at", "_budget", "_buffer", "_deadline", "_wire", "first_byte")

    def __init__(self, wire: Wire, deadline: Deadline, budget: int) -> None:
        self._wire = wire
        self._deadline = deadline
        self._budget = budget
        self._buffer = b""
        self._at = 0
        self.first_byte: float | None = None

    def unread(self) -> int:
        return len(self._buffer) - self._at

    def set_budget(self, budget: int) -> None:
        """What may be taken from now on, counting what has arrived but is not taken."""
        self._budget = budget - self.unread()

    def take_line(self) -> bytes:
        """One line with its end, LF or CRLF."""
        searched = self._at
        while (end := self._buffer.find(b"\n", searched)) < 0:
            unread = self.unread()
            self._fill()
            searched = self._at + unread
        return self._take(end + 1 - self._at)

    def take_some(self, most: int) -> bytes:
        """What there is, at least one byte, at most `most`."""
        if not self.unread():
            self._fill()
        return self._take(min(most, self.unread()))

    def _take(self, count: int) -> bytes:
        taken = self._buffer[self._at : self._at + count]
        self._at += count
        return taken

    def _fill(self) -> None:
        """Waits for bytes and adds them to the buffer."""
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
