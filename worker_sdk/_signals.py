"""SIGTERM and SIGINT as something the main thread can wait for."""

import contextlib
import os
import select
import signal
import socket
from types import FrameType, TracebackType

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Set by the first signal or by `set()`; a second signal ends the process at once.

    A socket pair rather than an Event: a signal handler runs between any two bytecodes of the main
    thread, also while that thread holds the Event's own lock.
    """

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._far.setblocking(False)
        self._pid = os.getpid()
        self._signals = 0
        self._previous: dict[int, object] = {}

    def set(self) -> None:
        with contextlib.suppress(OSError):  # full: it was set long ago
            self._far.send(b"x")

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it was set in time; stays set."""
        return bool(select.select([self._near], [], [], seconds)[0])

    def __enter__(self) -> "StopRequest":
        """Listen to signals. Main thread only."""
        for number in STOPPING:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)  # type: ignore[arg-type]  # what signal.signal itself returned

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            # A process forked by a handler: the signal is its own affair, not the worker's.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._signals += 1
        if self._signals > 1:
            os.write(2, b"second signal: leaving at once, leases will expire\n")
            os._exit(128 + number)
        self.set()
