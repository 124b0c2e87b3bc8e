"""Connections kept between attempts, so that a busy host costs no new TCP and TLS handshake each time.

They are kept by scheme and `host:port`, last used first. Only a connection whose last response was read to
its end comes here, and it is looked at again before it is used. It does not live long, so that a changed DNS
record is soon followed.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final

from app.webhooks.addresses import Target
from dispatcher.http.connector import Connection

_SWEEP_EVERY: Final = 1.0


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Connections and seconds: how many are kept per host and in all, for how long idle, how long at all."""

    per_host: int = 8
    in_all: int = 128
    idle: float = 30.0
    life: float = 300.0


class ConnectionPool:
    """Lends connections: `take` one, `give` it back, `close` all. Thread-safe."""

    def __init__(self, limits: PoolLimits = PoolLimits()) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], list[Connection]] = {}
        self._count = 0
        self._swept = 0.0
        self._is_closed = False

    def take(self, target: Target) -> Connection | None:
        """Return a connection that is open as far as can be seen, or None."""
        while (connection := self._pop(target)) is not None:
            if not self._is_stale(connection, time.monotonic()) and connection.wire.is_quiet():
                return connection
            connection.wire.close()
        return None

    def give(self, target: Target, connection: Connection) -> None:
        """Keep the connection, or close it when there is no room."""
        connection.idle_since = time.monotonic()
        self.sweep()
        with self._lock:
            kept = self._kept.setdefault((target.scheme, target.host_key), [])
            has_room = len(kept) < self._limits.per_host and self._count < self._limits.in_all
            if has_room and not self._is_closed:
                kept.append(connection)
                self._count += 1
                return
        connection.wire.close()

    def sweep(self) -> None:
        """Close what has been idle for too long, of any host. Looks once a second at most."""
        now = time.monotonic()
        if now - self._swept < _SWEEP_EVERY:
            return
        self._swept = now
        for connection in self._remove_stale(now):
            connection.wire.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            kept, self._kept, self._count = self._kept, {}, 0
        for connections in kept.values():
            for connection in connections:
                connection.wire.close()

    def _pop(self, target: Target) -> Connection | None:
        with self._lock:
            kept = self._kept.get((target.scheme, target.host_key))
            if not kept:
                return None
            self._count -= 1
            return kept.pop()

    def _remove_stale(self, now: float) -> list[Connection]:
        stale = []
        with self._lock:
            for kept in self._kept.values():
                stale += [connection for connection in kept if self._is_stale(connection, now)]
                kept[:] = [connection for connection in kept if not self._is_stale(connection, now)]
            self._kept = {key: kept for key, kept in self._kept.items() if kept}
            self._count -= len(stale)
        return stale

    def _is_stale(self, connection: Connection, now: float) -> bool:
        limits = self._limits
        return now - connection.idle_since > limits.idle or now - connection.opened > limits.life
