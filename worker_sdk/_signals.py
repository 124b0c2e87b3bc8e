"""SIGTERM and SIGINT as something the main thread can wait for."""

import contextlib
import os
import select
import signal
import socket
import time
from types import FrameType, TracebackType

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """A flag set by the first signal or by `set()`; a second signal ends the process at once.

    It uses a socket pair rather than an Event for two reasons. A Python signal handler runs between any two
    bytecodes of the main thread, also while that thread holds the Event's own lock. And it does not run while
    the main thread waits in the kernel, if the signal came just before the wait began or went to another
    thread: only the byte that the C handler writes (`set_wakeup_fd`) ends that wait.
    """

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._far.setblocking(False)
        self._pid = os.getpid()
        self._set = False
        self._signals = 0
        self._previous_fd = -1
        self._previous: dict[int, object] = {}

    def set(self) -> None:
        self._set = True
        with contextlib.suppress(OSError):  # the buffer is full: it was set long ago
            self._far.send(b"x")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set. Return whether it was in time. It stays set."""
        ends_at = None if seconds is None else time.monotonic() + seconds
        while not self._set:
            left = None if ends_at is None else max(0.0, ends_at - time.monotonic())
            if not select.select([self._near], [], [], left)[0]:
                break
            # A byte alone means nothing: a process forked by a handler writes to the same socket.
            self._near.recv(4096)
        return self._set

    def __enter__(self) -> "StopRequest":
        """Listen to signals. Main thread only."""
        self._previous_fd = signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        for number in STOPPING:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._previous_fd)
        for number, previous in self._previous.items():
            signal.signal(number, previous)  # type: ignore[arg-type]  # what signal.signal itself returned

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            # In a process forked by a handler the signal must act as usual and not stop the worker.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._signals += 1
        if self._signals > 1:
            os.write(2, b"second signal: leaving at once, leases will expire\n")
            os._exit(128 + number)
        self.set()
