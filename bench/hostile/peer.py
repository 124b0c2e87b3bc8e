"""The receiver's side of one connection: what behaviours are written with."""

from __future__ import annotations

import itertools
import re
import socket
import struct
import threading
from collections.abc import Iterable

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")
_FOREVER = 1 << 40


class Peer:
    """Every method ends with an OSError when the other side, or the server, has gone away."""

    def __init__(self, sock: socket.socket, stopping: threading.Event, requests: list[bytes]) -> None:
        self.sock = sock
        self._stopping = stopping
        self._requests = requests

    def request(self) -> bytes:
        """Read one request, head and body, and keep it. Raises ConnectionError at the end of the stream."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        missing = int(length[1]) - len(body) if length else 0
        while missing > 0:
            piece = self._receive()
            missing -= len(piece)
            data += piece
        self._requests.append(data)
        return data

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, status: str = "200 OK", *headers: str, body: bytes = b"ok") -> None:
        """Send a whole response; the length is right unless `headers` frame it otherwise."""
        framed = any(header.lower().startswith(("content-length", "transfer-enc")) for header in headers)
        lines = [f"HTTP/1.1 {status}", *headers, *([] if framed else [f"Content-Length: {len(body)}"])]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def drip(self, data: Iterable[int], pause: float = 0.02) -> None:
        """Send one byte at a time."""
        for byte in data:
            if self._stopping.wait(pause):
                raise ConnectionAbortedError
            self.send(bytes([byte]))

    def drip_forever(self, data: bytes, pause: float = 0.02) -> None:
        self.drip(itertools.cycle(data), pause)

    def flood(self, data: bytes, times: int = _FOREVER) -> None:
        """Send it again and again, as fast as it goes."""
        for _ in range(times):
            if self._stopping.is_set():
                raise ConnectionAbortedError
            self.send(data)

    def hold(self) -> None:
        """Keep the connection open and say nothing, until the other side ends it."""
        while self.sock.recv(65536):
            pass

    def reset(self) -> None:
        """End the connection with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _receive(self) -> bytes:
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionAbortedError
        return data
