"""The hard end of an attempt, over all its phases."""

from __future__ import annotations

import time


class Deadline:
    """`seconds` from now on the monotonic clock."""

    __slots__ = ("_ends",)

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, above zero; TimeoutError, as a socket would raise, when there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left
