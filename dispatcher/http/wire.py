"""A socket whose every wait ends with the attempt's deadline.

A library's timeout is for one receive at a time, so a peer that drips a byte a second holds a thread for as
long as it likes. Here the socket never blocks: whoever waits, waits in `_wait`, for what is left of the whole
attempt. So no second thread has to watch over the sockets and cut them. It is the cheapest way besides: the
interpreter lock is let go once a system call, and a socket with a timeout makes twice as many of them.
"""

from __future__ import annotations

import math
import select
import socket
import ssl

from dispatcher.http.deadline import Deadline


class Wire:
    """A connected socket, plain or (after `secure`) TLS. Past the deadline: TimeoutError."""

    __slots__ = ("_poll", "_sock", "tls_version")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self.tls_version: str | None = None

    def secure(self, context: ssl.SSLContext, host: str, deadline: Deadline) -> None:
        """The TLS handshake, and the check of the certificate against `host`."""
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
        """All of `data`, into the kernel's hands."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._sock.send(rest) :]
            except ssl.SSLWantReadError:
                self._wait(deadline)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait_to_send(deadline)

    def receive(self, most: int, deadline: Deadline) -> bytes:
        """At least one byte; none at the end of the stream."""
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
        """Whether nothing has arrived since the last answer: neither an end nor bytes nobody asked for."""
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
