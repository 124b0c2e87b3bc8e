"""Which deliveries are in flight in this process, how many more may be, and how many of each host.

`DISPATCHER_THREADS` bounds the attempts that run at once. An attempt that has waited for its receiver longer
than SLOW_AFTER costs hardly more than a sleeping thread, so up to SLOW_SHARE times as many of those don't
count: hosts that hang can't use up what healthy ones need.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from app.webhooks.outcomes import ANSWERED
from dispatcher.delivery import Delivery, Result

FIRST_WINDOW = 1
SLOW_AFTER = 0.5
SLOW_SHARE = 4
# Results that the database has not taken yet; beyond that nothing more is claimed.
MOST_UNSETTLED = 512
MOST_HOSTS = 1024


@dataclass(slots=True)
class HostWindow:
    """How many deliveries one host may hold at a time, and how many it does.

    A host begins with FIRST_WINDOW and gets one more at each quick response, as in TCP. A slow host gets
    less, and the window is halved when no response comes. So a host that has shown nothing yet, or nothing
    good, never holds more than a thread or two.
    """

    size: int = FIRST_WINDOW
    running: int = 0
    unsettled: int = 0

    @property
    def leases(self) -> int:
        """How many leases the host may hold: those that only wait to be settled take no room."""
        return self.size + self.unsettled

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.unsettled

    def grow(self, most: int) -> None:
        """Allow one more, and no more than `most`."""
        self.size = min(self.size + 1, most)

    def shrink(self) -> None:
        """Halve the window."""
        self.size = max(FIRST_WINDOW, self.size // 2)


class InFlight:
    """Counts deliveries; thread-safe. One is running from `begin` to `end`, and unsettled until `forget`.

    A lease token names it: when a lease ran out here, the delivery may be here once more, under another.
    """

    def __init__(self, threads: int) -> None:
        self.most_running = threads * (1 + SLOW_SHARE)
        self._threads = threads
        self._most = max(1, threads * 3 // 4)
        self._most_if_slow = max(1, threads // 8)
        self._lock = threading.Lock()
        # When each began, by lease token, in that order: the slow ones are in front.
        self._running: dict[str, float] = {}
        self._unsettled: dict[str, float] = {}
        self._hosts: dict[str, HostWindow] = {}

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def unsettled(self) -> int:
        return len(self._unsettled)

    def room(self) -> int:
        """Return how many more attempts may begin now."""
        with self._lock:
            if len(self._unsettled) >= MOST_UNSETTLED:
                return 0
            slow = min(self._slow(time.monotonic()), self._threads * SLOW_SHARE)
            return max(0, self._threads + slow - len(self._running))

    def limits(self) -> tuple[list[str], list[int]]:
        """Return the known hosts, and the leases that each may hold. Any other host has FIRST_WINDOW."""
        with self._lock:
            return list(self._hosts), [host.leases for host in self._hosts.values()]

    def begin(self, deliveries: Iterable[Delivery]) -> None:
        """Count deliveries that were claimed."""
        now = time.monotonic()
        with self._lock:
            for delivery in deliveries:
                self._running[delivery.lease_token] = now
                self._hosts.setdefault(delivery.host, HostWindow()).running += 1

    def end(self, result: Result) -> None:
        """Record that the attempt is over; its result waits to be settled."""
        delivery, took = result.delivery, time.monotonic() - result.started
        with self._lock:
            self._unsettled[delivery.lease_token] = self._running.pop(delivery.lease_token)
            host = self._hosts[delivery.host]
            host.running -= 1
            host.unsettled += 1
            if result.attempt.outcome in ANSWERED:
                host.grow(self._most if took < SLOW_AFTER else self._most_if_slow)
            else:
                host.shrink()

    def cancel(self, deliveries: Iterable[Delivery]) -> None:
        """Forget deliveries that have no result."""
        with self._lock:
            for delivery in deliveries:
                self._running.pop(delivery.lease_token)
                self._hosts[delivery.host].running -= 1

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """Forget deliveries that are settled, or whose leases are lost."""
        with self._lock:
            for delivery in deliveries:
                self._unsettled.pop(delivery.lease_token)
                self._hosts[delivery.host].unsettled -= 1
            if len(self._hosts) > MOST_HOSTS:
                self._hosts = {name: host for name, host in self._hosts.items() if not host.is_idle}

    def oldest_seconds(self) -> float:
        """Return how long the oldest delivery has been here: past its lease, a thread is stuck."""
        with self._lock:
            began = [*self._running.values(), *self._unsettled.values()]
        return time.monotonic() - min(began) if began else 0.0

    def by_host(self) -> dict[str, int]:
        """Return how many attempts run, by host."""
        with self._lock:
            return {name: host.running for name, host in self._hosts.items()}

    def _slow(self, now: float) -> int:
        slow = 0
        for began in self._running.values():
            if now - began < SLOW_AFTER:
                break
            slow += 1
        return slow
