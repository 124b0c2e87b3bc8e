"""The budget of a pool: its places, who waits for one, and those that a lost backend still takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from app.db.connection import Connection, close_quietly
from app.db.errors import PoolExhausted
from app.db.interruption import Interruption

# While a node takes no writes, connections are made anew this often: its address may lead elsewhere by then.
LEAVE_EVERY_SECONDS = 1.0


class Places:
    """Exactly `size` places. The pool's lock is held by whoever calls or looks at `free`.

    `free` is a stack, the last used on top; None stands for a connection that is opened at its next use.
    Where a call had to be interrupted, its place stays taken until the server has ended the backend, so that
    there are never more backends than places.
    """

    def __init__(self, lock: threading.Lock, size: int, max_waiting: int, wait_seconds: float) -> None:
        self.max_waiting = max_waiting
        self.waiting = 0
        self.free: list[Connection | None] = [None] * size
        self.freed = threading.Condition(lock)
        # Those in use when their node was left; they are closed when they are given back.
        self.left: set[Connection] = set()
        self._left_at = float("-inf")
        self._size = size
        self._wait_seconds = wait_seconds
        self._lost: list[Interruption] = []

    def wait(self) -> Connection | None:
        """Return what comes free. Raise PoolExhausted if nothing does, or if enough calls wait already."""
        self.find_gone()
        if not self.free:
            self._wait()
        return self.free.pop()

    def lose(self, interruption: Interruption) -> None:
        """Keep a place taken until the backend of its call, which was interrupted, is gone."""
        self._lost.append(interruption)
        self.find_gone()

    def find_gone(self) -> None:
        """Free the places whose backends have ended."""
        for interruption in [one for one in self._lost if one.is_gone()]:
            self._lost.remove(interruption)
            interruption.close()
            self.free.append(None)
            self.freed.notify()

    def leave(self, in_use: Iterable[Connection]) -> None:
        """Close the free connections, and those in use when they are given back: their node is of no use.

        A session that began while the node was read-only stays so for good, and an address may have moved to
        another node. A pause keeps calls that go on failing from connecting anew each time.
        """
        if time.monotonic() >= self._left_at + LEAVE_EVERY_SECONDS:
            self._left_at = time.monotonic()
            self.left.update(in_use)
            self.close_free()

    def close_free(self) -> None:
        """Close all free connections."""
        for index, connection in enumerate(self.free):
            self.free[index] = None
            close_quietly(connection)

    def _wait(self) -> None:
        if self.waiting >= self.max_waiting:
            raise PoolExhausted(f"all {self._size} connections are in use and {self.waiting} calls wait")
        self.waiting += 1
        try:
            if not self.freed.wait_for(lambda: self.free, self._wait_seconds):
                raise PoolExhausted(f"no connection came free in {self._wait_seconds} s")
        finally:
            self.waiting -= 1
