"""SIGTERM and SIGINT as something the main thread can wait for."""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

from .fork import STOPPING, share_again, unshare

OnSignal = Callable[[int, FrameType | None], object]


TIMERS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)


class SignalHandlers:
    """Handlers of signals in this process alone: its forks have those that were there before."""

    def __init__(self, on_signal: OnSignal, numbers: Iterable[int] = STOPPING) -> None:
        self._on_signal = on_signal
        self._numbers = numbers
        self._previous: dict[int, Any] = {}

    def install(self) -> None:
        """Set them. Main thread only."""
        for number in self._numbers:
            self._previous[number] = signal.signal(number, self._on_signal)
        unshare(self)

    def remove(self) -> None:
        share_again(self)
        self.left_behind()

    def left_behind(self) -> None:
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL if previous is None else previous)


class StopRequest:
    """A flag set by the first signal or by `set()`; a second signal ends the process at once.

    It uses a socket pair rather than an Event for two reasons. A Python signal handler runs between any two
    bytecodes of the main thread, also while that thread holds the Event's own lock. And it does not run while
    the main thread waits in the kernel, if the signal came just before the wait began or went to another
    thread: only the byte that the C handler writes (`set_wakeup_fd`) ends that wait.
    """

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        # Both ways, since a handler may have changed the default time limit of sockets.
        self._near.setblocking(True)
        self._far.setblocking(False)
        self._set = False
        self._signals = 0
        self._previous_fd = -1
        self._handlers = (SignalHandlers(self._on_signal), SignalHandlers(_on_timer, TIMERS))

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
            # A byte alone means nothing: signals of other handlers write to the same socket.
            self._near.recv(4096)
        return self._set

    def __enter__(self) -> "StopRequest":
        """Listen to signals. Main thread only."""
        self._previous_fd = signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        unshare(self)
        for handlers in self._handlers:
            handlers.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handlers in self._handlers:
            handlers.remove()
        share_again(self)
        signal.set_wakeup_fd(self._previous_fd)

    def left_behind(self) -> None:
        """Let go of the wake-up socket, in a fork: it is still the worker's."""
        signal.set_wakeup_fd(self._previous_fd)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            os.write(2, b"second signal: leaving at once, leases will expire\n")
            os._exit(128 + number)
        self.set()


def _on_timer(number: int, _frame: FrameType | None) -> None:
    """Live on: by default an alarm that a handler set in its thread would end the worker."""
    name = signal.Signals(number).name
    os.write(2, f'{name} of a handler is ignored: timers need executor = "process"\n'.encode())
