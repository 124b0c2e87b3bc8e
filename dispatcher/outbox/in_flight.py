"""Which deliveries are in flight here, how many more may be, and how many of each host.

`DISPATCHER_THREADS` bounds the attempts that run at once. One that has waited for its receiver longer than
SLOW_AFTER hardly costs anything but a sleeping thread, so up to SLOW_SHARE times as many of those don't
count: hosts that hang can't use up what healthy ones need.

A host begins with one delivery at a time and gets one more at each quick answer, as TCP does, up to three
quarters of the threads; a slow one gets less, and one that does not answer is halved. So a host that has
shown nothing yet, or nothing good, never holds more than a thread or two.
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
class _HostWindow:
    window: int = FIRST_WINDOW
    running: int = 0
    unsettled: int = 0


class InFlight:
    """Thread-safe. A delivery is running from `begin` to `end`, and unsettled until `forget`."""

    def __init__(self, threads: int) -> None:
        self.most_running = threads * (1 + SLOW_SHARE)
        self._threads = threads
        self._most = max(1, threads * 3 // 4)
        self._most_if_slow = max(1, threads // 8)
        self._lock = threading.Lock()
        # In the order they began: the slow ones are in front.
        self._running: dict[int, float] = {}
        self._unsettled: dict[int, float] = {}
        self._hosts: dict[str, _HostWindow] = {}

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def unsettled(self) -> int:
        return len(self._unsettled)

    def room(self) -> int:
        """How many more attempts may begin now."""
        with self._lock:
            if len(self._unsettled) >= MOST_UNSETTLED:
                return 0
            slow = min(self._slow(time.monotonic()), self._threads * SLOW_SHARE)
            return max(0, self._threads + slow - len(self._running))

    def limits(self) -> tuple[list[str], list[int]]:
        """Leases that each known host may hold; those that only wait to be settled take no room.

        A host that is not named has shown nothing yet: FIRST_WINDOW.
        """
        with self._lock:
            return list(self._hosts), [host.window + host.unsettled for host in self._hosts.values()]

    def begin(self, deliveries: Iterable[Delivery]) -> None:
        now = time.monotonic()
        with self._lock:
            for delivery in deliveries:
                self._running[delivery.id] = now
                self._hosts.setdefault(delivery.host, _HostWindow()).running += 1

    def end(self, result: Result) -> None:
        """The attempt is over, and its result waits to be settled."""
        took = time.monotonic() - result.started
        with self._lock:
            delivery = result.delivery
            self._unsettled[delivery.id] = self._running.pop(delivery.id)
            host = self._hosts[delivery.host]
            host.running -= 1
            host.unsettled += 1
            if result.attempt.outcome not in ANSWERED:
                host.window = max(FIRST_WINDOW, host.window // 2)
            else:
                most = self._most if took < SLOW_AFTER else self._most_if_slow
                host.window = min(host.window + 1, most)

    def cancel(self, deliveries: Iterable[Delivery]) -> None:
        """They did not start, and were given back."""
        with self._lock:
            for delivery in deliveries:
                self._running.pop(delivery.id)
                self._hosts[delivery.host].running -= 1

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        """They are settled, or their leases are lost."""
        with self._lock:
            for delivery in deliveries:
                self._unsettled.pop(delivery.id)
                self._hosts[delivery.host].unsettled -= 1
            if len(self._hosts) > MOST_HOSTS:
                self._forget_idle_hosts()

    def oldest_seconds(self) -> float:
        """How long the oldest of all has been here; no flight outlives its lease unless a thread is stuck."""
        with self._lock:
            began = [*self._running.values(), *self._unsettled.values()]
        return time.monotonic() - min(began) if began else 0.0

    def by_host(self) -> dict[str, int]:
        with self._lock:
            return {name: host.running for name, host in self._hosts.items()}

    def _slow(self, now: float) -> int:
        slow = 0
        for began in self._running.values():
            if now - began < SLOW_AFTER:
                break
            slow += 1
        return slow

    def _forget_idle_hosts(self) -> None:
        for name in [n for n, host in self._hosts.items() if not host.running and not host.unsettled]:
            del self._hosts[name]
