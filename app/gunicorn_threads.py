"""Threads that serve whichever connection has something to read.

Gunicorn's own gthread worker has one thread that waits for all connections and hands each request to a pool:
two wake-ups, a future and some ten system calls around every request. Here every thread waits for all
connections itself (epoll hands a readable one to exactly one of them, the last that went to sleep, whose
caches are warm), serves it, and puts it back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from gunicorn.http.body import LengthReader  # type: ignore[import-untyped]
from gunicorn.http.errors import NoMoreData  # type: ignore[import-untyped]
from gunicorn.workers import base  # type: ignore[import-untyped]
from gunicorn.workers.gthread import TConn  # type: ignore[import-untyped]

# A client that stalls this long in the middle of a request, or of its answer, holds its thread no longer.
STALL_SECONDS = 20
# How long the rest of a body that nobody read is thrown away, before the connection is closed instead.
DRAIN_SECONDS = 5.0
LOOK_SECONDS = 1.0
READABLE_ONCE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
GONE = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EAGAIN, errno.EBADF}


class ThreadedWorker(base.Worker):  # type: ignore[misc]
    """The main thread accepts, and ends connections that idle too long; `threads` others serve.

    A connection is idle, or one thread's own. Whoever takes it out of `_idle` owns it: dict.pop is atomic.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Made in the process that waits on it: this runs in the master, before the fork.
        self._ready: select.epoll
        self._idle: dict[int, TConn] = {}
        self._open = 0
        self._closed = threading.Condition()

    def has_room(self) -> bool:
        """Whether one more connection may be kept: the threads can always get one each."""
        most: int = self.cfg.worker_connections - self.cfg.threads
        return len(self._idle) < most

    def run(self) -> None:
        self._ready = select.epoll()
        for number in range(self.cfg.threads):
            threading.Thread(target=self._serve, name=f"serve-{number}", daemon=True).start()
        for listener in self.sockets:
            listener.setblocking(False)
        look_at = 0.0
        while self.alive and self.ppid == os.getppid():
            self.notify()
            self._accept()
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + LOOK_SECONDS
                self._close_idle(lambda connection: connection.timeout < time.monotonic())
        self._stop()

    def handle_request(self, request: Any, connection: TConn) -> bool:
        """Answer; whether the connection may be used again."""
        raise NotImplementedError

    def _accept(self) -> None:
        """What comes within a second; a signal ends the wait. With no room left, clients wait unaccepted."""
        full = self._open >= self.cfg.worker_connections
        readable, _, _ = select.select([self.PIPE[0], *([] if full else self.sockets)], [], [], LOOK_SECONDS)
        for listener in readable:
            if listener == self.PIPE[0]:
                with contextlib.suppress(BlockingIOError):
                    os.read(listener, 4096)
                continue
            with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
                self._welcome(listener)

    def _welcome(self, listener: socket.socket) -> None:
        client, address = listener.accept()
        stall = struct.pack("ll", STALL_SECONDS, 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            client.setsockopt(socket.SOL_SOCKET, option, stall)
        connection = TConn(self.cfg, client, address, listener.getsockname())
        with self._closed:
            self._open += 1
        connection.set_timeout()
        self._idle[client.fileno()] = connection
        self._ready.register(client, READABLE_ONCE)

    def _serve(self) -> None:
        while True:
            for number, _ in self._ready.poll(maxevents=1):
                connection = self._idle.pop(number, None)
                if connection is not None:  # else the main thread has just closed it
                    self._turn(number, connection)

    def _turn(self, number: int, connection: TConn) -> None:
        if not self._requests(connection):
            self._close(connection, graceful=True)
            return
        connection.set_timeout()
        self._idle[number] = connection
        with contextlib.suppress(OSError):  # closed at once: this process stops
            self._ready.modify(number, READABLE_ONCE)

    def _requests(self, connection: TConn) -> bool:
        """Also those that came in behind the first: what was read ahead makes no socket readable."""
        while self._request(connection):
            if not connection.parser.unreader.buf.getbuffer().nbytes:
                return True
        return False

    def _request(self, connection: TConn) -> bool:
        request = None
        try:
            connection.init()
            request = next(connection.parser)
            return self.handle_request(request, connection) and _drained(connection.parser)
        except (NoMoreData, StopIteration):
            pass
        except OSError as error:
            if error.errno not in GONE:
                self.log.exception("a connection failed")
        except Exception as error:
            self.handle_error(request, connection.sock, connection.client, error)
        return False

    def _close(self, connection: TConn, graceful: bool = False) -> None:
        """`graceful`: what the client goes on sending must not cut off an answer that is on its way."""
        connection.close(graceful)
        with self._closed:
            self._open -= 1
            self._closed.notify()

    def _close_idle(self, chosen: Callable[[TConn], bool]) -> None:
        for number, connection in list(self._idle.items()):
            if chosen(connection) and self._idle.pop(number, None) is connection:
                self._close(connection)

    def _stop(self) -> None:
        """What is under way, or was sent, is finished; who only waits, or comes now, is sent elsewhere."""
        for listener in self.sockets:
            listener.close()
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while self._open and time.monotonic() < deadline:
            self._close_idle(lambda connection: not _has_input(connection))
            with self._closed:
                self._closed.wait(0.05)


def _drained(parser: Any) -> bool:
    reader = parser.mesg.body.reader
    if isinstance(reader, LengthReader) and not reader.length:
        return True
    return bool(parser.finish_body(deadline=time.monotonic() + DRAIN_SECONDS))


def _has_input(connection: TConn) -> bool:
    look = select.poll()
    look.register(connection.sock, select.POLLIN)
    return bool(look.poll(0))
