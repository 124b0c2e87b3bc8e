"""A thread that looks after something every second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("rvq.database")

WATCH_SECONDS = 1.0


class Watcher:
    """Calls `look` again and again, from `start` until `stop`. It may be started again."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._stopped: threading.Event | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._lock:
            if self._stopped is None:
                self._stopped = threading.Event()
                threading.Thread(
                    target=self._run, args=(self._stopped,), name="pool-watch", daemon=True
                ).start()

    def stop(self) -> None:
        with self._lock:
            if self._stopped is not None:
                self._stopped.set()
                self._stopped = None

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(WATCH_SECONDS):
            try:
                self._look()
            except Exception:
                log.exception("the watch over database calls failed")
