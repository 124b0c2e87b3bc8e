"""How long to pause between two claims.

Many deliveries are claimed fifty times a second at most, which is what makes batches; few, and for a second
after, more often, so that each is sent soon; then less and less often.
"""

from __future__ import annotations

import random

# Seconds: after a claim that brought so many; after one that brought fewer, and for so long after the last.
MANY, BATCH_PAUSE = 3, 0.02
PROMPT_PAUSE, PROMPT_FOR = 0.005, 1.0
LONGEST_PAUSE = 0.25
# What a claim brought counts so much less with each claim after it: many come in bursts.
FADING = 0.7
# A delivery that waited longer than two gatherings shows that we are behind: then nothing is let gather.
BEHIND = 2 * BATCH_PAUSE


class Pacing:
    """`most_running`: with more attempts under way there is no room for what would gather meanwhile."""

    def __init__(self, most_running: int) -> None:
        self._most_running = most_running
        self._lately = 0.0
        self._pause = PROMPT_PAUSE
        self._prompt_until = 0.0

    def after(self, claimed: int, running: int, waited: float, now: float) -> float:
        """Seconds to pause after a claim of so many, of which one was due so many seconds ago."""
        self._lately = max(claimed, self._lately * FADING)
        if claimed:
            self._prompt_until = now + PROMPT_FOR
        if self._lately >= MANY and running <= self._most_running and waited <= BEHIND:
            return BATCH_PAUSE
        if now < self._prompt_until:
            self._pause = PROMPT_PAUSE
            return PROMPT_PAUSE
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE)
        return self._pause * random.uniform(0.8, 1.0)
