"""What a fork of a process may not do: go on as a second worker.

A handler may fork, or use a library that does. The fork has only the thread that forked, but copies of all
leases, pipes and signal handlers.
"""

import contextlib
import os
import signal
import sys
import threading
import traceback
import weakref
from types import TracebackType
from typing import NoReturn, Protocol

STOPPING = (signal.SIGTERM, signal.SIGINT)


class OneProcess:
    """A block of a user's code. A fork that leaves it ends there; the process that entered it goes on."""

    __slots__ = ("_pid",)

    def __enter__(self) -> None:
        self._pid = os.getpid()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            _end_fork(error)


class Unshared(Protocol):
    """Something that a fork has to let go of."""

    def left_behind(self) -> None:
        """Let go. Called in the fork, which has a single thread."""


_unshared: "weakref.WeakSet[Unshared]" = weakref.WeakSet()
_blocked = threading.local()


def unshare(thing: Unshared) -> None:
    """Have every fork from now on let go of this, for as long as somebody else refers to it."""
    _unshared.add(thing)


def share_again(thing: Unshared) -> None:
    _unshared.discard(thing)


def _before() -> None:
    # Python drops signals that reach a fork before it is ready. Blocked, they wait for its own handlers.
    if _unshared:
        _blocked.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


def _unblock() -> None:
    mask = getattr(_blocked, "mask", None)
    if mask is not None:
        del _blocked.mask
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_fork() -> None:
    things = list(_unshared)
    _unshared.clear()
    for thing in things:
        with contextlib.suppress(OSError, ValueError):
            thing.left_behind()
    _unblock()


def _end_fork(error: BaseException | None) -> NoReturn:
    """End this process as Python would, but run nothing that belongs to the one it was forked from."""
    status = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        status = error.code or 0
    elif error is not None:
        status = 1
        with contextlib.suppress(BaseException):
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    os._exit(status & 0xFF)


os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_in_fork)
