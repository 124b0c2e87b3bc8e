"""A loop is one thread that calls a step again and again; the step returns how long to pause.

Tests call the step and need no thread. A step that fails, in whatever way, is logged and called again after a
while: no loop ends because of an error, and none stops another.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from app.db import DatabaseError

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


def nothing() -> None:
    """Do nothing, after a round of a loop."""


class Loop:
    """Calls `step` until `stop`. `step` returns seconds to pause; `wake` ends a pause early.

    `on_round` is called after each step that came to its end, and after one that failed: that is progress
    too, of a loop that could do nothing better.
    """

    def __init__(self, name: str, step: Callable[[], float], on_round: Callable[[], None] = nothing) -> None:
        self.name = name
        self._step = step
        self._on_round = on_round
        self._failures = 0
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        # Asked first: setting an event takes its lock, and this is called for every delivery.
        if not self._wake.is_set():
            self._wake.set()

    def stop(self) -> None:
        """Let the step that runs be the last one."""
        self._stopping = True
        self._wake.set()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, for that time at most."""
        self._thread.join(seconds)

    def run_once(self) -> float:
        """Call the step, catch its failure, and return the seconds to pause."""
        try:
            pause = self._step()
        except DatabaseError as error:
            if self._failures == 0:
                log.warning("database: %s", error, extra={"loop": self.name})
            pause = self._pause_after_failure()
        except Exception:
            log.exception("a step failed", extra={"loop": self.name})
            pause = self._pause_after_failure()
        else:
            if self._failures:
                log.info("works again", extra={"loop": self.name, "failures": self._failures})
                self._failures = 0
        self._on_round()
        return pause

    def _pause_after_failure(self) -> float:
        self._failures += 1
        longest = min(FIRST_PAUSE * 2.0 ** min(self._failures, 10), LONGEST_PAUSE)
        return longest * random.uniform(0.5, 1.0)

    def _run(self) -> None:
        while not self._stopping:
            pause = self.run_once()
            if pause > 0:
                self._wake.wait(pause)
            self._wake.clear()
