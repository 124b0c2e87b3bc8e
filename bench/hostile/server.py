"""One listener on loopback that behaves in one way."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Self

from bench.hostile.peer import Peer


class HostileReceiver:
    """`with HostileReceiver(serve) as receiver:` listens on `receiver.port`; each connection has a thread.

    `connections` counts what was accepted, `requests` holds the bytes of each request that was read.
    With `tls`, the handshake is done before `serve` is called. `address` to listen at; port 0 is any.
    """

    def __init__(
        self,
        serve: Callable[[Peer], None],
        tls: ssl.SSLContext | None = None,
        address: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._serve = serve
        self._tls = tls
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(address, backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.requests: list[bytes] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        """End all connections, and wait for their threads."""
        self._stopping.set()
        # A shutdown, unlike a close, wakes the thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def join_connections(self) -> None:
        """Wait until every connection so far has ended."""
        for thread in self._threads[1:]:
            thread.join()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._stopping.is_set():
                sock, _ = self._listener.accept()
                sock.settimeout(30)
                self.connections += 1
                with self._lock:
                    self._open.add(sock)
                self._start(self._converse, sock)

    def _converse(self, sock: socket.socket) -> None:
        served = sock
        try:
            if self._tls is not None:
                served = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                with self._lock:
                    self._open.add(served)
                served.do_handshake()
            self._serve(Peer(served, self._stopping, self.requests))
        except (OSError, ValueError):
            pass  # the other side, or we, have gone away: that is how most of these end
        finally:
            with self._lock:
                self._open -= {sock, served}
            served.close()
