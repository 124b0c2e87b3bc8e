"""Threads that serve whichever connection has something to read.

Gunicorn's own gthread worker has one thread that waits for all connections and hands each request to a pool:
two wake-ups, a future and some ten system calls around every request. Here every thread waits for all
connections itself (epoll hands a readable one to exactly one of them, the last that went to sleep, whose
caches are warm), serves it, and puts it back. No thread waits for the rest of a request's head, or for a
client that is slow to take its response.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from gunicorn.http.errors import NoMoreData  # type: ignore[import-untyped]
from gunicorn.workers import base  # type: ignore[import-untyped]

from app.server.body import STALL_SECONDS
from app.server.connection import Connection
from app.server.parser import HeadIncomplete

TICK_SECONDS = 1.0
READABLE_ONCE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
WRITABLE_ONCE = select.EPOLLOUT | select.EPOLLONESHOT
GONE = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EAGAIN, errno.EBADF}


class ThreadedWorker(base.Worker):  # type: ignore[misc]
    """A worker whose main thread accepts clients and closes idle ones, while `threads` others serve.

    A connection is idle, or one thread serves it, or it waits for a call that another thread makes. Whoever
    takes it out of `_idle` owns it: dict.pop is atomic.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Made by run(), in the process that waits on it: __init__ runs in the master, before the fork.
        self._ready: select.epoll
        self._idle: dict[int, Connection] = {}
        self._open = 0
        self._closed = threading.Condition()

    def has_room(self) -> bool:
        """Return whether one more connection may stay open, with one left to accept for every thread."""
        max_idle: int = self.cfg.worker_connections - self.cfg.threads
        return len(self._idle) < max_idle

    def run(self) -> None:
        self._ready = select.epoll()
        for number in range(self.cfg.threads):
            threading.Thread(target=self._serve, name=f"serve-{number}", daemon=True).start()
        for listener in self.sockets:
            listener.setblocking(False)
        close_idle_at = 0.0
        while self.alive and self.ppid == os.getppid():
            self.notify()
            self._accept()
            if time.monotonic() >= close_idle_at:
                close_idle_at = time.monotonic() + TICK_SECONDS
                self._close_idle(lambda connection: connection.timeout < time.monotonic())
        self._stop()

    def handle_request(self, request: Any, connection: Connection) -> bool:
        """Respond to a request. Return False if another thread will, which then calls `put_back`."""
        raise NotImplementedError

    def _accept(self) -> None:
        """Accept who comes within a second; a signal ends the wait. With no room left, nobody is accepted."""
        full = self._open >= self.cfg.worker_connections
        readable, _, _ = select.select([self.PIPE[0], *([] if full else self.sockets)], [], [], TICK_SECONDS)
        for listener in readable:
            if listener == self.PIPE[0]:
                with contextlib.suppress(BlockingIOError):
                    os.read(listener, 4096)
                continue
            with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
                self._accept_one(listener)

    def _accept_one(self, listener: socket.socket) -> None:
        client, address = listener.accept()
        connection = Connection(self.cfg, client, address, listener.getsockname())
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
                    self._serve_requests(connection)

    def _serve_requests(self, connection: Connection) -> None:
        """Serve a request and those that were read ahead with it, which make no socket readable."""
        while self.guarded(connection, self._step):
            if connection.unsent or not connection.keep or not connection.has_read_ahead():
                self.put_back(connection)
                return

    def _step(self, connection: Connection) -> bool:
        """Send more of a response, or respond to a request. Return False if another thread will respond."""
        if connection.unsent:
            connection.send_more()
            return True
        return self.handle_request(connection.next_request(), connection)

    def guarded(self, connection: Connection, step: Callable[[Connection], bool]) -> bool:
        """Run `step`; if it fails, return True with a connection that waits for more, or is to be closed."""
        try:
            return step(connection)
        except HeadIncomplete:
            return True
        except (NoMoreData, StopIteration):
            pass
        except OSError as error:
            if error.errno not in GONE:
                self.log.exception("a connection failed")
        except Exception as error:
            self.handle_error(None, connection.sock, connection.client, error)
        connection.discard_response()
        return True

    def put_back(self, connection: Connection) -> None:
        """Re-arm the connection in epoll, or close it."""
        if not connection.keep and not connection.unsent:
            self._close(connection, graceful=True)
            return
        events = READABLE_ONCE
        connection.set_timeout()
        if connection.unsent:
            events = WRITABLE_ONCE
            connection.timeout = time.monotonic() + STALL_SECONDS
        elif connection.has_read_ahead():
            events |= WRITABLE_ONCE  # it is writable, so that a thread serves it at once
        elif connection.head_began_at:
            connection.timeout = connection.head_began_at + STALL_SECONDS
        number = connection.sock.fileno()
        self._idle[number] = connection
        with contextlib.suppress(OSError):  # it was closed in between: this process stops
            self._ready.modify(number, events)

    def _close(self, connection: Connection, graceful: bool = False) -> None:
        """Close the connection; if `graceful`, what the client still sends does not cut off the response."""
        connection.close(graceful)
        with self._closed:
            self._open -= 1
            self._closed.notify()

    def _close_idle(self, is_done: Callable[[Connection], bool]) -> None:
        for number, connection in list(self._idle.items()):
            if is_done(connection) and self._idle.pop(number, None) is connection:
                self._close(connection)

    def _stop(self) -> None:
        """Stop accepting, close idle connections, and wait for requests that are under way or were sent."""
        for listener in self.sockets:
            listener.close()
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while self._open and time.monotonic() < deadline:
            self._close_idle(lambda connection: not connection.has_work())
            with self._closed:
                self._closed.wait(0.05)
