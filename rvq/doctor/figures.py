"""What the doctor reads from the database, as it is shown by the checks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple


class DueStep(NamedTuple):
    """A step of maintenance, how much is due (counted up to a bound), and for how long the oldest is."""

    step: str
    due: int
    seconds: float | None
    is_behind: bool


@dataclass(frozen=True)
class Skew:
    """Seconds: the database's clock less ours, how sure that is, and how far RVQ's is moved from it.

    Then the day that RVQ's clock shows, and whether ids can say it.
    """

    seconds: float
    uncertain: float
    moved: float
    day: str
    has_ids: bool


class Admission(NamedTuple):
    """The state of admission control, in seconds; `checked_ago` is None when no dispatcher ever looked."""

    refusal: str | None
    checked_ago: float | None
    max_transaction_age: float
    max_dead_tuples: int


class OpenDay(NamedTuple):
    """A day past retention, and the first task that keeps it: an open one, or one with a pending delivery."""

    day: date
    task_id: int
    is_open: bool


class ServerRun(NamedTuple):
    """The last run of a server that is recorded; `is_this` says whether it is this server's."""

    how: str
    began_at: str
    seconds_ago: float
    is_this: bool


class StoredUrl(NamedTuple):
    url: str
    tasks: int
    deliveries: int


class WaitingQueue(NamedTuple):
    """A queue with queued sub_tasks, how many are claimed, and since when the oldest is queued."""

    queue: str
    is_paused: bool
    queued: int
    claimed: int
    oldest_seconds: float


class BrokenHost(NamedTuple):
    """A receiver whose breaker is open, and how often it failed in a row (counted up to 1 000)."""

    host: str
    failures: int
