"""A thread that repeats one step. Tests call the step; only this file waits."""

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("worker_sdk")

UNTIL_WOKEN = 60.0  # seconds; a wait that only a wake-up should end, with a net under it


class Loop:
    """Calls `step` for ever; the step returns how many seconds to wait unless woken."""

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
        """After the current step there is none."""
        self._stopped = True
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Whether it ended in time."""
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
        try:
            return self._step()
        except Exception:  # a bug in one round must not silently end heartbeats or reports
            logger.exception("a step of %s failed", self._thread.name)
            return 1.0
