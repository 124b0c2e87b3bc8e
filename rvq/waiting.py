"""Waiting for something that another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], object], seconds: float, poll_seconds: float = POLL_SECONDS) -> bool:
    """Ask `condition` again until it holds; return whether it did within `seconds`."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(poll_seconds)
    return True
