"""The heartbeat extends every held lease, and tells handlers whose work has become pointless."""

import logging
import random
import time
from collections.abc import Callable, Sequence

from ._client import MAX_BATCH, Client
from ._errors import APIError
from ._leases import Lease, Leases, Reason, State
from ._loop import Backoff

logger = logging.getLogger("worker_sdk")

LOST = {"cancelled": Reason.CANCELLED, "stale": Reason.STALE, "unknown": Reason.STALE}


class Heartbeat:
    """A heartbeat is due before a third of the lease is over: two may fail before a lease is lost."""

    def __init__(
        self, client: Client, leases: Leases, lease_seconds: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._leases = leases
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._backoff = Backoff(lease_seconds / 60, lease_seconds / 9)
        self._due = clock() + self._interval()

    def step(self) -> float:
        """Send a heartbeat if it is time. Return the seconds until the next one or a handler's time limit."""
        self._stop_overdue()
        if self._clock() >= self._due:
            self._due = self._clock() + self._beat()
        return max(0.0, min([self._due, *self._deadlines()]) - self._clock())

    def _interval(self) -> float:
        return self._lease_seconds / 3 * random.uniform(0.8, 1.0)

    def _beat(self) -> float:
        """Send one heartbeat for all leases. Return the seconds until the next."""
        leases = [
            lease for lease in self._leases.all() if lease.reason is None or lease.reason is Reason.SHUTDOWN
        ]
        try:
            for start in range(0, len(leases), MAX_BATCH):
                self._extend(leases[start : start + MAX_BATCH])
        except APIError as error:
            wait = self._backoff.failed(error.retry_after)
            logger.warning("heartbeat for %d leases failed, again in %.1f s: %s", len(leases), wait, error)
            return wait
        self._backoff.succeeded()
        return self._interval()

    def _extend(self, leases: Sequence[Lease]) -> None:
        expires = self._clock() + self._lease_seconds
        for lease, outcome in zip(leases, self._client.heartbeat(leases, self._lease_seconds), strict=True):
            if outcome == "extended":
                lease.expires = expires
            elif outcome in LOST:
                self._lost(lease, LOST[outcome])

    def _lost(self, lease: Lease, reason: Reason) -> None:
        # Not while it is reported: RVQ's outcome for the report decides, and may be what ended the lease.
        if self._leases.drop_if_ready(lease) or lease.state is State.RUNNING:
            logger.info("sub_task %s is to stop: %s", lease.id, reason.value, extra={"sub_task_id": lease.id})
            lease.cancel(reason)

    def _stop_overdue(self) -> None:
        now = self._clock()
        for lease in self._leases.running():
            if lease.deadline is not None and lease.deadline <= now and lease.reason is None:
                logger.warning("sub_task %s ran out of time", lease.id, extra={"sub_task_id": lease.id})
                lease.cancel(Reason.TIMEOUT)

    def _deadlines(self) -> list[float]:
        """Return when running handlers run out of time, and when one that starts now would."""
        if self._leases.timeout_seconds is None:
            return []
        deadlines = [
            lease.deadline for lease in self._leases.running() if lease.deadline and lease.reason is None
        ]
        return [*deadlines, self._clock() + self._leases.timeout_seconds]
