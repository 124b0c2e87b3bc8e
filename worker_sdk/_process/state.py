"""What a handler may change of its whole process, and how it is put back before the next sub_task.

The next sub_task must not find another folder, another environment or an alarm that is about to go off.
"""

import _signal  # type: ignore[import-not-found]  # it has no stub
import contextlib
import faulthandler
import gc
import io
import locale
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from .._logs import logger

RECURSION_LIMIT = sys.getrecursionlimit()
SIGNALS = [int(number) for number in signal.valid_signals()]
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class State:
    """The state of this process when the handler had been set up. Main thread only."""

    def __init__(self) -> None:
        self._values = {name: read() for name, (read, _) in PARTS.items()}
        self._streams = [_Stream(fd, name) for fd, name in enumerate(("stdin", "stdout", "stderr"))]

    def put_back(self) -> None:
        """Put back what the handler changed. Raises Stuck when that can't be done."""
        keep_recursion_limit()
        faulthandler.cancel_dump_traceback_later()
        for timer in TIMERS:
            signal.setitimer(timer, 0)
        for stream in self._streams:
            stream.put_back()
        for name, (read, write) in PARTS.items():
            try:
                if read() != self._values[name]:
                    write(self._values[name])
                    logger.debug("the handler changed %s, which is put back", name)
            except Exception as error:
                raise Stuck(f"the handler changed {name}, which can't be put back: {error}") from error


def keep_recursion_limit() -> None:
    """Undo a lower recursion limit: it holds for all threads, those of the SDK too."""
    if sys.getrecursionlimit() < RECURSION_LIMIT:
        sys.setrecursionlimit(RECURSION_LIMIT)


class Stuck(Exception):
    """The process can't be used for another sub_task."""


class _Stream:
    """A standard stream, and a copy of what it leads to."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._object = getattr(sys, name)
        self._copy = os.dup(fd)
        self._identity = _identity(fd)

    def put_back(self) -> None:
        stream = self._object
        if stream is not None and getattr(stream, "closed", False):
            stream = self._object = os.fdopen(
                self._fd, "w" if self._fd else "r", 1, errors="replace", closefd=False
            )
        if getattr(sys, self._name) is not stream:
            setattr(sys, self._name, stream)
        if _identity(self._fd) != self._identity:
            with contextlib.suppress(OSError, ValueError, AttributeError, io.UnsupportedOperation):
                stream.flush()
            try:
                os.dup2(self._copy, self._fd)
            except OSError as error:
                raise Stuck(f"{self._name} can't be put back: {error}") from error


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _environment() -> dict[Any, Any]:
    data = getattr(os.environ, "_data", os.environ)  # as stored: decoding takes most of the time of a look
    return dict(data)


def _set_environment(values: dict[Any, Any]) -> None:
    wanted = {_text(name): _text(value) for name, value in values.items()}
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def _text(stored: bytes | str) -> str:
    return os.fsdecode(stored)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _signal_handlers() -> dict[int, Any]:
    # Without `signal`'s conversion to enums, which takes most of the time of a look.
    return {number: _signal.getsignal(number) for number in SIGNALS}


def _set_signal_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None and _signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _collector() -> tuple[bool, tuple[int, int, int], int]:
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def _set_collector(values: tuple[bool, tuple[int, int, int], int]) -> None:
    enabled, thresholds, debug = values
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*thresholds)
    gc.set_debug(debug)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it is deleted
        return None


def _set_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


PARTS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the folder": (_folder, _set_folder),
    "the environment": (_environment, _set_environment),
    "the umask": (_umask, os.umask),
    "signal handlers": (_signal_handlers, _set_signal_handlers),
    "the blocked signals": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the sockets' time limit": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    "the locale": (
        lambda: locale.setlocale(locale.LC_ALL),
        lambda name: locale.setlocale(locale.LC_ALL, name),
    ),
    "the garbage collector": (_collector, _set_collector),
}
"""The name of each part, what reads it, and what sets it."""
