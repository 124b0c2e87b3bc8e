"""The smallest HTTP/1.1 client that the load needs: one kept connection, responses with a length.

A general client costs two to four times the CPU for each request, on the cores that are being measured.
"""

from __future__ import annotations

import socket


class HttpError(Exception):
    """There is no usable response: refused, reset, timed out, cut short, or not HTTP as spoken here."""


class Connection:
    """Opened when first used, and anew after an error. Raises HttpError; never sends anything twice."""

    def __init__(self, host: str, port: int, token: str, timeout: float) -> None:
        self._address = (host, port)
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._head = (
            f" HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()

    def post(self, path: bytes, body: bytes) -> tuple[int, bytes]:
        """Return the status and body of the response."""
        return self._exchange(b"POST %b%b%d\r\n\r\n%b" % (path, self._head, len(body), body))

    def get(self, path: bytes) -> tuple[int, bytes]:
        return self._exchange(b"GET %b%b0\r\n\r\n" % (path, self._head))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, request: bytes) -> tuple[int, bytes]:
        try:
            connection = self._socket = self._socket or self._connect()
            connection.sendall(request)
            return self._read(connection)
        except OSError as error:
            self.close()
            raise HttpError(f"{type(error).__name__}: {error}") from error
        except HttpError:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, self._timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _read(self, connection: socket.socket) -> tuple[int, bytes]:
        received = _receive(connection)
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += _receive(connection)
        head = received[:end].lower()
        missing = end + 4 + _length(head) - len(received)
        parts = [received[end + 4 :]]
        while missing > 0:
            parts.append(_receive(connection))
            missing -= len(parts[-1])
        if b"connection: close" in head:
            self.close()
        return int(head[9:12]), b"".join(parts)


def _receive(connection: socket.socket) -> bytes:
    received = connection.recv(65536)
    if not received:
        raise HttpError("the connection was closed before the response was complete")
    return received


def _length(head: bytes) -> int:
    """Return the value of Content-Length; `head` is in lower case."""
    start = head.find(b"content-length:")
    if start < 0:
        raise HttpError("a response without Content-Length")
    return int(head[start + 15 :].split(b"\r\n", 1)[0])
