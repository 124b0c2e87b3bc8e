"""The calls that are under way on a pool's connections, and how those that take too long are given up.

The server ends a statement at its timeout. It does not end a commit that waits for a synchronous standby, and
nothing at all while it is frozen or cut off. So a call that is overdue is cancelled first, which ends the
wait of a commit; then nobody knows whether the standby has it. One that does not end even so is cut off, and
its backend may live on: it keeps its place in the budget of connections until it is seen to be gone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass

import psycopg2

from app.db.connection import Connection, cut_off

# How long a call that was cancelled may take to end, in seconds.
CANCEL_SECONDS = 5.0


@dataclass(slots=True)
class Call:
    """`began_at` is by the monotonic clock, later by what the call may take longer than others."""

    began_at: float
    cancelled_at: float | None = None
    # The process that it was cut off from.
    left_backend: int | None = None


class Calls:
    """Thread-safe. A call is under way from `begin` to `end`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[Connection, Call] = {}

    def connections(self) -> list[Connection]:
        with self._lock:
            return list(self._under_way)

    def begin(self, connection: Connection, more_seconds: float = 0.0) -> None:
        with self._lock:
            self._under_way[connection] = Call(time.monotonic() + more_seconds)

    def end(self, connection: Connection) -> Call | None:
        """Return what became of the call; from now on it is neither cancelled nor cut off."""
        with self._lock:
            return self._under_way.pop(connection, None)

    def give_up_overdue(self, limit_seconds: float, cancel_seconds: float = CANCEL_SECONDS) -> int:
        """Cancel, or at last cut off, calls that take longer than this; return how many were given up now."""
        now = time.monotonic()
        with self._lock:
            overdue = [one for one in self._under_way.items() if now - one[1].began_at > limit_seconds]
            return sum(_give_up(connection, call, now, cancel_seconds) for connection, call in overdue)


def _give_up(connection: Connection, call: Call, now: float, cancel_seconds: float) -> bool:
    if call.cancelled_at is None:
        call.cancelled_at = now
        # A frozen server does not even answer that.
        threading.Thread(target=_cancel, args=(connection,), name="cancel", daemon=True).start()
    elif call.left_backend is None and now - call.cancelled_at >= cancel_seconds:
        call.left_backend = connection.info.backend_pid
        cut_off(connection)
    else:
        return False
    return True


def _cancel(connection: Connection) -> None:
    with contextlib.suppress(psycopg2.Error):
        connection.cancel()
