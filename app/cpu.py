"""How the kernel schedules this process's threads, only one of which runs Python at a time."""

from __future__ import annotations

import contextlib
import os


def use_batch_policy() -> None:
    """Run this process under SCHED_BATCH, where a thread that wakes does not preempt the running one.

    Otherwise each hand-over of the interpreter's lock costs four context switches instead of one: a thread
    that is woken for the lock runs at once, finds it still held, and sleeps again. Only threads started from
    here on are affected. Where the kernel has no such policy, or forbids it, nothing changes.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def pin_to_core(core: int) -> None:
    """Pin this process to one core, where the kernel allows it.

    One interpreter can't use a second core, which makes each hand-over of its lock a wake-up across cores.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {core})
