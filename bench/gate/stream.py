"""A stream of ticks goes by a schedule, whatever the server does, and keeps how each tick ended."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass
class Answered:
    """One entry for each answered tick: when it was due, sent and answered, in seconds of the clock."""

    due: array[float] = field(default_factory=lambda: array("d"))
    sent: array[float] = field(default_factory=lambda: array("d"))
    answered: array[float] = field(default_factory=lambda: array("d"))

    def add(self, due: float, sent: float, answered: float) -> None:
        self.due.append(due)
        self.sent.append(sent)
        self.answered.append(answered)

    def __len__(self) -> int:
        return len(self.due)


class Stream:
    """Tick k is due at `start + k / rate`. Users take ticks, wait until they are due, send, tell how it went.

    A tick is shed when it is due, `in_flight` earlier ones are due and not answered yet, and nobody took it:
    the schedule never waits for the server. Latency counts from the due time, so a stall shows in every
    tick that it delays. Nothing here is shared between operating-system threads.
    """

    def __init__(
        self,
        name: str,
        rate: float,
        in_flight: int,
        start: float,
        end: float,
        clock: Clock = time.perf_counter,
    ) -> None:
        self.name = name
        self.rate = rate
        self.start = start
        self.end = end
        self.ok = Answered()
        self.errors: list[tuple[float, str]] = []
        self.shed: list[float] = []
        self.idle: list[float] = []
        # How late a user that waited for its tick sent it: the generator's own delay.
        self.late: array[float] = array("d")
        self.late_due: array[float] = array("d")
        self._in_flight_limit = in_flight
        self._clock = clock
        self._next = 0
        self._running = 0

    def take(self) -> float | None:
        """Return the due time of the next tick, now or later; None when the stream has ended."""
        now = min(self._clock(), self.end)
        due_by_now = int((now - self.start) * self.rate) + 1 if now >= self.start else 0
        too_many = due_by_now - self._next + self._running - self._in_flight_limit
        self._skip(too_many, due_by_now)
        due = self._due(self._next)
        if due >= self.end:
            return None
        self._next += 1
        return due

    def sheds(self, due: float) -> bool:
        """Shed a tick that is due now if too many are in flight; return whether it was."""
        full = self._running >= self._in_flight_limit
        if full:
            self.shed.append(due)
        return full

    def begin(self, due: float, waited: bool) -> float:
        """Note that a user is about to send; return the time."""
        sent = self._clock()
        self._running += 1
        if waited:
            self.late.append(sent - due)
            self.late_due.append(due)
        return sent

    def succeeded(self, due: float, sent: float, answered: float) -> None:
        self._running -= 1
        self.ok.add(due, sent, answered)

    def failed(self, due: float, why: str) -> None:
        self._running -= 1
        if why.startswith("503"):
            self.shed.append(due)
        else:
            self.errors.append((due, why))

    def had_nothing_to_send(self, due: float) -> None:
        self.idle.append(due)

    def close(self) -> None:
        """Shed the ticks that were due and that nobody ever took."""
        while (due := self._due(self._next)) < min(self.end, self._clock()):
            self.shed.append(due)
            self._next += 1

    def stop(self) -> None:
        """End the stream: no tick is due after this moment."""
        self.end = min(self.end, self._clock())

    def _skip(self, count: int, due_by_now: int) -> None:
        """Shed the oldest ticks that nobody took."""
        for _ in range(min(count, due_by_now - self._next)):
            self.shed.append(self._due(self._next))
            self._next += 1

    def _due(self, tick: int) -> float:
        return self.start + tick / self.rate
