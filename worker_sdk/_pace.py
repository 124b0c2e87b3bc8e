"""How many sub_tasks may wait for a free slot: about a second of work, as measured."""

WEIGHT = 0.2  # of the newest measurement in the running mean


class Pace:
    """Without a measurement nothing is prefetched: a lease is only taken when it can start soon."""

    def __init__(self, concurrency: int, most: int, horizon_seconds: float) -> None:
        self._concurrency = concurrency
        self._most = most
        self._horizon = horizon_seconds
        self._mean: float | None = None

    def ended(self, seconds: float) -> None:
        """One handler run took that long."""
        self._mean = seconds if self._mean is None else self._mean + WEIGHT * (seconds - self._mean)

    def prefetch(self, youngest_run_seconds: float) -> int:
        """`youngest_run_seconds`: how long the last started of a full house has run so far (0: a slot is
        free). Work that has just become slow shows there first, before any of it ends."""
        if self._mean is None:
            return 0
        expected = max(self._mean, youngest_run_seconds, 1e-6)
        return min(self._most, int(self._horizon * self._concurrency / expected))
