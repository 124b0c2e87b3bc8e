"""Whether commits go through: a database that answers reads may have a full disk, or lack its standby."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg2

from app.db import DatabaseError

# Seconds: how long a success holds, and how long whoever asks waits for a commit under way.
HOLDS, WAITS = 2.0, 1.0


class CommitProbe:
    """Calls `commit`, which raises if it fails, at most once at a time: what is stuck piles up nothing."""

    def __init__(self, commit: Callable[[], object]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._probe: threading.Thread | None = None
        self._began_at = self._ended_at = float("-inf")
        self._failure = ""

    def failure(self) -> str:
        """Return why commits do not go through; nothing if they do."""
        probe = self._under_way()
        probe.join(WAITS)
        if probe.is_alive():
            waited = time.monotonic() - self._began_at
            return f"a commit has waited for {waited:.0f} s: is a synchronous standby away?"
        return self._failure

    def _under_way(self) -> threading.Thread:
        """Return the probe that runs, or the last one as long as it holds, or a new one."""
        with self._lock:
            is_over = self._probe is None or not self._probe.is_alive()
            if self._probe is None or (is_over and time.monotonic() - self._ended_at >= HOLDS):
                self._began_at = time.monotonic()
                self._probe = threading.Thread(target=self._run, name="commit-probe", daemon=True)
                self._probe.start()
            return self._probe

    def _run(self) -> None:
        try:
            self._commit()
            self._failure = ""
        except (DatabaseError, psycopg2.Error) as error:
            self._failure = f"no commit goes through: {error}".strip()
        self._ended_at = time.monotonic()
