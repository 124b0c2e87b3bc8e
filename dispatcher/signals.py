"""The signals that ask the dispatcher to stop, as something the main thread can wait for.

`signal.sigtimedwait` would do it alone, but for a fault of CPython's: when the wait is interrupted without a
signal (SIGSTOP and SIGCONT, a frozen container, a debugger) and its time is up by then, it returns a siginfo
that nothing was written to, which looks like a signal. `sigwait` has no time limit and no such fault.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

# Waits that many seconds; True when the process is asked to stop.
Wait = Callable[[float], bool]

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Counts the stop signals from when it is made; make it before any other thread is started.

    They are blocked in all threads, so no handler interrupts anything, and one thread takes them.
    """

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._arrived = threading.Semaphore(0)
        threading.Thread(target=self._take, name="signals", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Return whether a signal came within that time. Each signal is told once."""
        return self._arrived.acquire(timeout=seconds)

    def _take(self) -> None:
        while True:
            try:
                signal.sigwait(SIGNALS)
            except InterruptedError:
                continue
            self._arrived.release()
