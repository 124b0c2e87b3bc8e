"""The leases that this worker holds, and the state of each.

    ready ──take──> running ──reporting──> reporting ──drop──> gone
      │                └──stopped──> stopped ──drop──> gone
      └──take_ready / drop_if_ready──> gone

Everything here is shared by all threads of the worker and guarded by one lock.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from ._sub_task import Claimed, SubTask


class State(Enum):
    READY = "ready"
    RUNNING = "running"
    REPORTING = "reporting"  # the handler is done, its outcome is not stored yet
    STOPPED = "stopped"  # cut short at shutdown, to be released
    GONE = "gone"


class Reason(Enum):
    """Why a sub_task was told to stop."""

    CANCELLED = "cancelled"  # RVQ cancelled it
    STALE = "stale"  # the lease is someone else's, or unknown by now
    EXPIRED = "expired"  # no heartbeat got through for the length of a lease: it may be someone else's
    TIMEOUT = "timeout"  # the handler's own limit
    SHUTDOWN = "shutdown"  # the worker's grace is over


class Lease:
    """One claimed sub_task. `expires` is a safe lower bound: it counts from before the request was sent."""

    def __init__(self, claimed: Claimed, claimed_at: float, expires: float) -> None:
        self.claimed = claimed
        self.id = claimed.id
        self.token = claimed.lease_token
        self.claimed_at = claimed_at
        self.expires = expires
        self.state = State.READY
        self.started_at: float | None = None
        self.deadline: float | None = None
        self.cancelled = threading.Event()
        self.reason: Reason | None = None

    def sub_task(self) -> SubTask:
        """Return what the handler sees."""
        return SubTask.from_claim(self.claimed, self.deadline, self.cancelled)

    def cancel(self, reason: Reason) -> None:
        """Tell the handler to stop. The first reason that is certain stays."""
        if self.reason in (None, Reason.EXPIRED):
            self.reason = reason
            self.cancelled.set()


@dataclass(frozen=True)
class Counts:
    ready: int
    running: int

    @property
    def held(self) -> int:
        return self.ready + self.running


class Leases:
    """All leases of a worker. `timeout_seconds` is how long a handler may run (None: no limit)."""

    def __init__(
        self, timeout_seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self._clock = clock
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        # A condition of its own, or each end of a sub_task would wake every idle slot.
        self._takeable = threading.Condition(lock)
        self._held: dict[str, Lease] = {}  # by token, which is never used twice
        self._running: dict[str, Lease] = {}  # the youngest last
        self._ready: deque[Lease] = deque()  # the longest claimed first
        self._closed = False

    def add(self, leases: Sequence[Lease]) -> None:
        with self._changed:
            for lease in leases:
                if lease.token not in self._held:  # an answer that was sent twice
                    self._held[lease.token] = lease
                    self._ready.append(lease)
            self._takeable.notify(len(leases))

    def take(self, wait: bool = True) -> Lease | None:
        """Start the next lease, waiting for one unless `wait` is False. Return None when none came or closed.

        One that has run out here is dropped: RVQ has given its sub_task to another worker or soon will.
        """
        with self._changed:
            while not self._closed:
                while self._ready:
                    lease = self._ready.popleft()
                    if lease.expires > self._clock():
                        return self._start(lease)
                    self._drop(lease)
                if not wait:
                    return None
                self._takeable.wait()
            return None

    def reporting(self, lease: Lease) -> None:
        """Record that the handler is done; the lease must live until the outcome is stored."""
        self._move(lease, State.REPORTING)

    def stopped(self, lease: Lease) -> None:
        """Record that the handler stopped early because the worker stops."""
        self._move(lease, State.STOPPED)

    def drop(self, lease: Lease) -> None:
        """Forget a lease that is not ours any more (reported, released, lost)."""
        with self._changed:
            self._drop(lease)

    def drop_if_ready(self, lease: Lease) -> bool:
        """Drop a lease that must not start any more. Return False when it has started already."""
        with self._changed:
            if lease.state is not State.READY:
                return False
            self._ready.remove(lease)
            self._drop(lease)
            return True

    def take_ready(self, claimed_before: float) -> list[Lease]:
        """Drop and return everything claimed before that moment that still waits for a slot."""
        with self._changed:
            taken = []
            while self._ready and self._ready[0].claimed_at < claimed_before:
                taken.append(self._ready.popleft())
                self._drop(taken[-1])
            return taken

    def all(self) -> list[Lease]:
        with self._changed:
            return list(self._held.values())

    def running(self) -> list[Lease]:
        """Return those whose handler runs, the longest running first."""
        with self._changed:
            return list(self._running.values())

    def unfinished(self) -> list[Lease]:
        """Return those that were started and have no outcome."""
        return [lease for lease in self.all() if lease.state in (State.RUNNING, State.STOPPED)]

    def counts(self) -> Counts:
        with self._changed:
            return Counts(len(self._ready), len(self._running))

    def close(self) -> None:
        """Start nothing any more: every waiting `take` returns None."""
        with self._changed:
            self._closed = True
            self._takeable.notify_all()
            self._changed.notify_all()

    def wait_until_none_runs(self, seconds: float) -> bool:
        """Wait until no handler runs. Return whether that happened in time."""
        ends_at = time.monotonic() + seconds
        with self._changed:
            while not self._none_runs() and (left := ends_at - time.monotonic()) > 0:
                # In short waits: the main thread may be here, and sees signals only between them.
                self._changed.wait(min(left, 0.1))
            return self._none_runs()

    def wait_for_change(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait(seconds)

    def _none_runs(self) -> bool:
        return not self._running

    def _move(self, lease: Lease, state: State) -> None:
        with self._changed:
            lease.state = state
            self._running.pop(lease.token, None)
            self._changed.notify_all()

    def _start(self, lease: Lease) -> Lease:
        now = self._clock()
        lease.state = State.RUNNING
        self._running[lease.token] = lease
        lease.started_at = now
        lease.deadline = None if self.timeout_seconds is None else now + self.timeout_seconds
        return lease

    def _drop(self, lease: Lease) -> None:
        lease.state = State.GONE
        self._held.pop(lease.token, None)
        self._running.pop(lease.token, None)
        self._changed.notify_all()
