"""The heartbeat extends leases; the watch tells handlers whose time is up, or whose lease may be gone."""

import random
import time
from collections.abc import Callable, Sequence

from ._client import MAX_BATCH, Client
from ._errors import APIError
from ._leases import Lease, Leases, Reason, State
from ._logs import logger
from ._loop import Backoff

LOST = {"cancelled": Reason.CANCELLED, "stale": Reason.STALE, "unknown": Reason.STALE}
UNTOLD = (None, Reason.EXPIRED)
WORTH_EXTENDING = (None, Reason.EXPIRED, Reason.SHUTDOWN)


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
        """Send a heartbeat if it is time. Return the seconds until the next one."""
        if self._clock() >= self._due:
            # Counted from before the request: one that hangs delays no other.
            wait_from = self._clock()
            wait = self._beat()
            self._due = max(wait_from + wait, self._clock())
        return self._due - self._clock()

    def _interval(self) -> float:
        return self._lease_seconds / 3 * random.uniform(0.8, 1.0)

    def _beat(self) -> float:
        """Send one heartbeat for all leases. Return the seconds until the next."""
        leases = [lease for lease in self._leases.all() if lease.reason in WORTH_EXTENDING]
        leases.sort(key=lambda lease: lease.expires)
        try:
            for start in range(0, len(leases), MAX_BATCH):
                self._extend(leases[start : start + MAX_BATCH])
        except APIError as error:
            wait = min(self._backoff.failed(error.retry_after), self._patience(leases))
            logger.warning("heartbeat for %d leases failed, again in %.1f s: %s", len(leases), wait, error)
            return wait
        self._backoff.succeeded()
        return self._interval()

    def _patience(self, leases: Sequence[Lease]) -> float:
        """Return how long the next beat may wait at most, whatever Retry-After says: half of what is left."""
        now = self._clock()
        left = min((lease.expires - now for lease in leases if lease.expires > now), default=0.0)
        return max(left / 2, self._lease_seconds / 9)

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


class Watch:
    """The watch tells running handlers what the clock says, also while a heartbeat hangs."""

    def __init__(
        self, leases: Leases, lease_seconds: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._leases = leases
        self._look_seconds = lease_seconds / 10
        self._clock = clock

    def step(self) -> float:
        """Tell handlers. Return the seconds until the next may have to be told."""
        now = self._clock()
        for lease in self._leases.running():
            if lease.deadline is not None and lease.deadline <= now and lease.reason in UNTOLD:
                logger.warning("sub_task %s ran out of time", lease.id, extra={"sub_task_id": lease.id})
                lease.cancel(Reason.TIMEOUT)
            elif lease.reason is None and lease.expires <= now:
                logger.warning(
                    "the lease of sub_task %s may be gone: no heartbeat got through",
                    lease.id,
                    extra={"sub_task_id": lease.id},
                )
                lease.cancel(Reason.EXPIRED)
        return max(0.0, min(self._moments(now)) - now)

    def _moments(self, now: float) -> list[float]:
        """Return when running handlers have to be told something, and when one that starts now would."""
        moments = [now + self._look_seconds]
        if self._leases.timeout_seconds is not None:
            moments.append(now + self._leases.timeout_seconds)
        for lease in self._leases.running():
            if lease.reason is None:
                moments += [lease.expires, lease.deadline or lease.expires]
            elif lease.reason is Reason.EXPIRED and lease.deadline is not None:
                moments.append(lease.deadline)
        return moments
