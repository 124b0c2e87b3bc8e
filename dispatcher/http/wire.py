"""A socket whose every wait ends with the attempt's deadline.

A library's timeout is for one receive at a time, so a peer that drips a byte a second holds a thread for as
long as it likes. Here the socket never blocks: every wait is in `_wait`, for what is left of the whole
attempt. So no second thread has to watch over the sockets and cut them. It is also the cheapest way: the
interpreter lock is released once a system call, and a socket with a timeout makes twice as many of them.
"""

from __future__ import annotations

import math
import select
import socket
import ssl
import time


class Deadline:
    """The hard end of an attempt, over all its phases: `seconds` from now on the monotonic clock."""

    __slots__ = ("_ends",)

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds left, above zero. Raises TimeoutError, as a socket would, if there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class Wire:
    """A connected socket, plain or (after `secure`) TLS. Every call raises TimeoutError past its deadline."""

    __slots__ = ("_poll", "_sock", "tls_version")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self.tls_version: str | None = None

    def secure(self, context: ssl.SSLContext, host: str, deadline: Deadline) -> None:
        """Do the TLS handshake and check the certificate against `host`."""
        secured = context.wrap_socket(self._sock, server_hostname=host, do_handshake_on_connect=False)
        self._sock = secured
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                self._wait(deadline)
            except ssl.SSLWantWriteError:
                self._wait_to_send(deadline)
            else:
                break
        self.tls_version = secured.version()

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Hand all of `data` to the kernel."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._sock.send(rest) :]
            except ssl.SSLWantReadError:
                self._wait(deadline)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait_to_send(deadline)

    def receive(self, most: int, deadline: Deadline) -> bytes:
        """Return at least one byte, at most `most`; none at the end of the stream."""
        # Plain bytes are waited for first, as they are never there yet; TLS may have some decrypted already.
        if self.tls_version is None:
            self._wait(deadline)
        while True:
            try:
                return self._sock.recv(most)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._wait(deadline)
            except ssl.SSLWantWriteError:
                self._wait_to_send(deadline)

    def is_quiet(self) -> bool:
        """Return whether nothing came since the last response: neither an end nor bytes nobody asked for."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return False
        return not self._poll.poll(0)

    def close(self) -> None:
        self._sock.close()

    def _wait(self, deadline: Deadline) -> None:
        while not self._poll.poll(math.ceil(deadline.remaining() * 1000)):
            pass

    def _wait_to_send(self, deadline: Deadline) -> None:
        self._poll.modify(self._sock, select.POLLOUT)
        try:
            self._wait(deadline)
        finally:
            self._poll.modify(self._sock, select.POLLIN)
