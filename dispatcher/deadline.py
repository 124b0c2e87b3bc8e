"""The hard end of an attempt.

A library's timeout is for one receive at a time, so a peer that drips a byte a second holds a thread for
as long as it likes. Here every blocking call (connect, handshake, send, receive) is given what is left of
the whole attempt. CPython keeps to that even within one TLS read or handshake that takes many packets, so
no second thread has to watch over the sockets.
"""

from __future__ import annotations

import socket
import time


class Deadline:
    """`seconds` from now on the monotonic clock."""

    __slots__ = ("_ends",)

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, above zero; TimeoutError, as a socket would raise, when there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def arm(self, sock: socket.socket) -> None:
        """The next blocking call on `sock` ends with the deadline at the latest."""
        sock.settimeout(self.remaining())
