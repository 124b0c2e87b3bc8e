"""Loops that run in threads beside a measurement."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def in_background(*loops: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run each loop in a thread of its own; the event that it is given is set when the block ends."""
    done = threading.Event()
    threads = [threading.Thread(target=loop, args=(done,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
