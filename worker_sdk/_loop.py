"""A thread that repeats one step, and how long a step waits after failures.

Tests call the step itself; only this thread waits.
"""

import random
import threading
from collections.abc import Callable

from ._logs import logger
from ._process.state import keep_recursion_limit

UNTIL_WOKEN = 60.0  # seconds; long, because a wake-up should end the wait, but bounded in case one is missing


class Loop:
    """A loop calls `step` until stopped; the step returns how many seconds to wait unless woken."""

    def __init__(
        self, name: str, step: Callable[[], float], at_end: Callable[[], None] | None = None
    ) -> None:
        self._step = step
        self._at_end = at_end
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"rvq-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Make the current step the last one."""
        self._stopped = True
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Wait for the thread to end. Return whether it did in time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped:
            wait = self._guarded_step()
            # Cleared after the wait and before the step: a wake-up during a step is never lost.
            self._wake.wait(wait)
            self._wake.clear()
        if self._at_end is not None:
            self._at_end()

    def _guarded_step(self) -> float:
        keep_recursion_limit()
        try:
            return self._step()
        except Exception:  # a bug in one round must not silently end heartbeats or reports
            logger.exception("a step of %s failed", self._thread.name)
            return 1.0


class Backoff:
    """How long to wait after failures in a row: doubles from `first` to `most` seconds.

    Each wait is spread over its upper half, so that workers that failed together do not come back together.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self.failures = 0

    def failed(self, retry_after: float | None = None) -> float:
        """Count a failure. Return the seconds to wait, at least the server's `retry_after`."""
        longest = min(self._first * 2.0 ** min(self.failures, 32), self._most)
        self.failures += 1
        # Spread after a Retry-After too: everybody was told the same moment.
        return (retry_after or 0.0) + longest * random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        self.failures = 0
