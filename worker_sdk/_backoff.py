"""How long to wait after failures in a row."""

import random


class Backoff:
    """Doubles from `first` to `most` seconds, each wait spread over its upper half so that workers that
    failed together do not come back together."""

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self.failures = 0

    def failed(self, retry_after: float | None = None) -> float:
        """Count a failure; seconds to wait, never sooner than the server's own wish."""
        longest = min(self._first * 2.0 ** min(self.failures, 32), self._most)
        self.failures += 1
        # Spread after a Retry-After too: everybody was told the same moment.
        return (retry_after or 0.0) + longest * random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        self.failures = 0
