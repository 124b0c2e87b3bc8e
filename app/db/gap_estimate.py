"""How close together calls come, and so how long it is worth waiting for one more."""

from __future__ import annotations

# So many times the median gap without anybody means that those who come together have come.
GAPS = 3.5
# By how much the running median moves with each gap that is longer, or shorter.
STEP = 1.1
# Seconds: with a median gap beyond it, one who waits mostly waits in vain.
SELDOM = 0.007


class GapEstimate:
    """Of one kind of call. `shortest` and `longest` (seconds) are the bounds of the patience."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self._median = SELDOM
        self._latest = float("-inf")

    @property
    def patience(self) -> float:
        """Seconds to wait for the next one."""
        if self._median > SELDOM:
            return self._shortest
        return min(max(GAPS * self._median, self._shortest), self._longest)

    def note(self, now: float) -> None:
        """One has come, by the monotonic clock."""
        step = STEP if now - self._latest > self._median else 1 / STEP
        self._median = min(max(self._median * step, self._shortest / GAPS), 2 * SELDOM)
        self._latest = now
