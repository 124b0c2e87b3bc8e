"""What follows an attempt: delivered, again after a while, or dead. It depends on the attempt alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dispatcher.http.attempt import Attempt

# Standard Webhooks' schedule: seconds before the first attempt, the second, ... the tenth and last.
SCHEDULE: Final = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
MOST_ATTEMPTS: Final = len(SCHEDULE)
JITTER: Final = 0.2

Reason = Literal["delivered", "retry", "gone", "not_allowed", "attempts_used_up"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a delivery. `delay`: seconds until the next attempt, None when there is none."""

    kind: Literal["delivered", "retry", "dead"]
    reason: Reason
    delay: float | None = None


def decide(attempt: Attempt, number: int, jitter: float) -> Decision:
    """Return what to do after attempt `number` (1 is the first); `jitter` is a random number in [0, 1).

    A URL that is not on the list any more is dead at once. A name that resolves to a forbidden address is
    not: that may be a fault at the receiver's end, and every try is vetted anew.
    """
    if attempt.outcome == "delivered":
        return Decision("delivered", "delivered")
    if attempt.outcome == "gone" or attempt.outcome == "not_allowed":
        return Decision("dead", attempt.outcome)
    if number >= MOST_ATTEMPTS:
        return Decision("dead", "attempts_used_up")
    return Decision("retry", "retry", delay_before(number + 1, jitter, attempt.retry_after))


def delay_before(number: int, jitter: float, retry_after: float | None = None) -> float:
    """Return the seconds to wait before attempt `number`, +-20 % of the schedule's.

    Retry-After can only lengthen it: a receiver that asks for a minute all night would otherwise use up all
    attempts in ten minutes. Its wait is spread upwards, never cut: all of a host's deliveries are told the
    same moment. (parse_retry_after bounds it to a day.)
    """
    scheduled = SCHEDULE[number - 1] * (1 + JITTER * (2 * jitter - 1))
    return max(scheduled, (retry_after or 0.0) * (1 + JITTER * jitter))
