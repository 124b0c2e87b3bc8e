"""The places of a pool: how many connections there may be, which of them are free, and who waits for one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.db.connection import Connection, close_quietly
from app.db.errors import PoolExhausted


class Places:
    """A stack of free places, the last used on top. None is a place whose connection is still to be opened.

    When none is free, up to `max_waiting` threads wait for `wait_seconds` at most.
    """

    def __init__(self, size: int, max_waiting: int, wait_seconds: float) -> None:
        self.size = size
        self.waiting = 0
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._free: list[Connection | None] = [None] * size
        self._freed = threading.Condition(threading.Lock())

    @property
    def free(self) -> int:
        return len(self._free)

    def fill(self, index: int, connect: Callable[[], Connection]) -> Connection:
        """Return the connection of a free place, opened if it has none; before anybody takes places."""
        connection = self._free[index] = self._free[index] or connect()
        return connection

    def take(self) -> Connection | None:
        """Take a free place. Raise PoolExhausted if there is none in time."""
        with self._freed:
            if not self._free:
                self._wait()
            return self._free.pop()

    def give_back(self, *connections: Connection | None) -> None:
        with self._freed:
            self._free += connections
            self._freed.notify(len(connections))

    def close_free(self, which: Callable[[Connection], bool] = lambda _: True) -> None:
        """Close the free connections for which `which` holds; their places stay."""
        with self._freed:
            for index, connection in enumerate(self._free):
                if connection is not None and which(connection):
                    self._free[index] = None
                    close_quietly(connection)

    def _wait(self) -> None:
        if self.waiting >= self._max_waiting:
            raise PoolExhausted(f"all {self.size} connections are in use and {self.waiting} calls wait")
        self.waiting += 1
        try:
            if not self._freed.wait_for(lambda: self._free, self._wait_seconds):
                raise PoolExhausted(f"no connection came free in {self._wait_seconds} s")
        finally:
            self.waiting -= 1
