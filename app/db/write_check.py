"""Whether the database stores what it is sent: found out by a small commit, one at a time in a process.

A commit may fail (the disk is full) or never end (the synchronous standby is away), while reads work and the
database says that it takes writes.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable

from app.db.errors import DatabaseError, DatabaseNotStoring

log = logging.getLogger("rvq.database")

# Seconds: how long a commit that went through counts; how long readiness waits for one.
FRESH_SECONDS, PATIENCE_SECONDS = 5.0, 2.0
PROBE_MS = 3_000
NOT_CONFIRMED = "a commit waited in vain for a synchronous standby"
DISK = "the disk is full, or fails"
# Writes a record to the log and nothing else. What its commit waits for has been done for all before it.
COMMIT_MARK = "pg_logical_emit_message(true, 'rvq', '')"
# The sort writes 300 kB to a temporary file: a relation may have free space while the disk has none.
PROBE = f"""
SET LOCAL work_mem = 64;
SELECT {COMMIT_MARK},
       (SELECT count(*) FROM (SELECT repeat('-', 8000) || n AS line FROM generate_series(1, 40) AS n
                               ORDER BY line) AS spilled)"""


class WriteCheck:
    """What is known about writes. While they are in doubt, they are refused, and tried by `try_again`.

    `commit` makes a small commit, and raises a DatabaseError when it fails or is not confirmed.
    """

    def __init__(self, commit: Callable[[], object]) -> None:
        self._commit = commit
        self._changed = threading.Condition()
        # By the monotonic clock: when the commit under way began; when the last one ended, and went through.
        self._began: float | None = None
        self._ended = self._went_through = float("-inf")
        self._error: DatabaseError | None = None
        # Why writes are refused; "" while they are not.
        self.doubt, self._doubted_at = "", 0.0

    def require(self) -> None:
        """Raise DatabaseNotStoring while writes are in doubt: nothing is sent then, so nothing is changed."""
        if self.doubt:
            seconds = time.monotonic() - self._doubted_at
            raise DatabaseNotStoring(f"{self.doubt} (found {seconds:.0f} s ago)")

    def require_fresh(self) -> None:
        """Raise a DatabaseError unless a commit went through lately, or does so now, in a short time."""
        with self._changed:
            self.require()
            if time.monotonic() - self._went_through < FRESH_SECONDS:
                return
            self._begin()
            assert self._began is not None
            patience = self._began + PATIENCE_SECONDS - time.monotonic()
            if not self._changed.wait_for(lambda: self._began is None, max(0.0, patience)):
                raise DatabaseNotStoring(self._overdue())
            if self._error:
                raise copy.copy(self._error)

    def begin_doubt(self, reason: str) -> None:
        """Refuse writes from now on, until a small commit goes through."""
        with self._changed:
            if not self.doubt:
                log.error("writes are refused until a commit goes through: %s", reason)
            self.doubt, self._doubted_at = reason, time.monotonic()
            self._went_through = float("-inf")

    def try_again(self) -> None:
        """Begin a small commit if writes are in doubt and none is under way."""
        if self.doubt:
            with self._changed:
                self._begin()

    def _begin(self) -> None:
        if self._began is None:
            self._began = time.monotonic()
            threading.Thread(target=self._run, name="write-check", daemon=True).start()

    def _run(self) -> None:
        error: DatabaseError | None = None
        try:
            self._commit()
        except DatabaseError as raised:
            error = raised
        except Exception as raised:
            log.exception("the small commit failed")
            error = DatabaseError(type(raised).__name__)
        with self._changed:
            self._began, self._error = None, error
            if error is None:
                self._went_through = time.monotonic()
                if self.doubt:
                    log.info("a commit went through: writes are taken again")
                    self.doubt = ""
            self._changed.notify_all()

    def _overdue(self) -> str:
        assert self._began is not None
        return f"a commit takes {time.monotonic() - self._began:.0f} s already"
