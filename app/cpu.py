"""How the kernel runs the threads of one interpreter, of which one at a time runs Python."""

from __future__ import annotations

import contextlib
import os


def use_batch_policy() -> None:
    """A thread of this process that wakes lets the one that runs go on until it waits.

    Else each hand-over of the interpreter's lock costs four switches for one: whoever is woken for the lock
    runs at once, finds it still held, and sleeps again. For threads started from here on; where the kernel
    has no such policy, or may not be asked, nothing changes.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def pin_to_core(core: int) -> None:
    """A second core is of no use to one interpreter, and makes each hand-over a wake-up across cores."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {core})
