"""How many sub_tasks may wait here for a free slot: about `prefetch_seconds` of work, as measured."""

import time
from collections.abc import Callable

from ._leases import Lease, Leases
from ._options import Options

WEIGHT = 0.2  # of the newest measurement in the running mean


class Prefetch:
    """Prefetch measures handler runs and decides how many more sub_tasks to claim.

    Without a measurement nothing is prefetched: a lease is only taken when its sub_task can start soon.
    """

    def __init__(self, options: Options, leases: Leases, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._leases = leases
        self._clock = clock
        self._mean: float | None = None
        self._low = 0

    @property
    def is_low(self) -> bool:
        """Whether so few sub_tasks are held that more would be claimed; until then no slot need ask."""
        return self._leases.counts().held <= self._low

    def ended(self, seconds: float) -> None:
        """Record how long one handler run took."""
        self._mean = seconds if self._mean is None else self._mean + WEIGHT * (seconds - self._mean)

    def room(self) -> int:
        """Return how many more sub_tasks could start within `prefetch_seconds`."""
        held, concurrency = self._leases.counts().held, self._options.concurrency
        waiting = self.allowed(0.0 if held < concurrency else self._youngest_run())
        # Refilled when half of it is used up, not with a request for every slot that comes free.
        self._low = concurrency + (waiting - 1) // 2
        return concurrency + waiting - held if held <= self._low else 0

    def allowed(self, youngest_run_seconds: float) -> int:
        """Return how many sub_tasks may wait.

        `youngest_run_seconds` is how long the run that started last has taken so far when every slot is busy,
        and 0 when one is free: work that has just become slow shows there before any of it ends.
        """
        if self._mean is None:
            return 0
        expected = max(self._mean, youngest_run_seconds, 1e-6)
        capacity = self._options.prefetch_seconds * self._options.concurrency
        return min(self._options.prefetch, int(capacity / expected))

    def take_overdue(self) -> list[Lease]:
        """Take back what has waited too long because the work is slower than measured: others may run it."""
        patience = max(2 * self._options.prefetch_seconds, 1.0)
        return self._leases.take_ready(self._clock() - patience)

    def _youngest_run(self) -> float:
        running = self._leases.running()
        return self._clock() - (running[-1].started_at or 0.0) if running else 0.0
