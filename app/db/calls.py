"""The calls that are under way on a pool's connections, and what ends those that outlive their time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_ACTIVE

from app.db.connection import Connection
from app.db.errors import translate
from app.db.interruption import Interruption

# A call that the server has not ended so long after its statement timeout is cancelled: it may wait in its
# commit, where no timeout holds. One that even that does not end is cut off.
CANCEL_SECONDS, OVERDUE_SECONDS = 2.0, 5.0


class Calls:
    """Since when each connection is in use, and which were interrupted. The pool's lock guards both.

    One that was interrupted has to be closed when its call has ended, since a cancel that comes late must not
    meet the next call.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        # By the monotonic clock, shifted by what the call may take longer, or less.
        self.since: dict[Connection, float] = {}
        self.interrupted: dict[Connection, Interruption] = {}

    def run(self, connection: Connection, statements: Sequence[str]) -> None:
        """Run statements on a connection that is not given out yet. Raise what the pool's calls raise."""
        self.since[connection] = time.monotonic()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        except psycopg2.Error as error:
            raise translate(error, was_sent=True) from error
        finally:
            with self._lock:
                self.since.pop(connection, None)
                interruption = self.interrupted.pop(connection, None)
            if interruption:
                interruption.close()

    def end_overdue(self, statement_timeout_ms: int) -> None:
        """Cancel, then cut off what has outlived its timeout. Without a timeout, nothing has."""
        if statement_timeout_ms:
            self.cancel_overdue(statement_timeout_ms / 1000 + CANCEL_SECONDS)
            self.cut_off_overdue(statement_timeout_ms / 1000 + OVERDUE_SECONDS)

    def cancel_overdue(self, limit_seconds: float) -> int:
        """Cancel the calls that have taken longer than `limit_seconds`, once each; return how many."""
        with self._lock:
            overdue = [one for one in self._overdue(limit_seconds) if one not in self.interrupted]
            return self._interrupt(overdue, Interruption.cancel)

    def cut_off_overdue(self, limit_seconds: float) -> int:
        """Cut off the calls that have taken longer than `limit_seconds`; return how many there were."""
        with self._lock:
            return self._interrupt(self._overdue(limit_seconds), Interruption.cut_off)

    def cancel_all(self, wait_seconds: float) -> None:
        """Cancel every statement that runs, and wait for a while until they have ended."""
        with self._lock:
            running = [one for one in list(self.since) if _is_running(one)]
            self._interrupt(running, Interruption.cancel)
        give_up = time.monotonic() + wait_seconds
        while any(one in self.interrupted for one in running) and time.monotonic() < give_up:
            time.sleep(0.01)

    def _overdue(self, limit_seconds: float) -> list[Connection]:
        now = time.monotonic()
        return [one for one, since in list(self.since.items()) if now - since > limit_seconds]

    def _interrupt(self, connections: list[Connection], how: Callable[[Interruption], None]) -> int:
        """Interrupt calls, with the lock held. One whose connection has broken is ending by itself."""
        for connection in connections:
            with contextlib.suppress(psycopg2.Error, OSError):
                if connection not in self.interrupted:
                    self.interrupted[connection] = Interruption(connection)
                how(self.interrupted[connection])
        return len(connections)


def _is_running(connection: Connection) -> bool:
    return connection.info.transaction_status == TRANSACTION_STATUS_ACTIVE
