"""A delivery that this process holds, its lease, and the result of one attempt at it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.ids import event_id
from dispatcher.http.attempt import Attempt
from dispatcher.schedule import Decision


@dataclass(frozen=True, slots=True)
class Lease:
    """Seconds. An attempt takes `attempt` at most; the rest of the lease is for recording it."""

    attempt: float = 15.0
    margin: float = 15.0

    @property
    def seconds(self) -> float:
        return self.attempt + self.margin


@dataclass(frozen=True, slots=True)
class Delivery:
    """A leased delivery. `attempt` is its number in the ledger, `tries` its place in the schedule.

    `waited`: seconds from due to claimed. `expires_at`: the monotonic moment until which the lease holds
    for certain (counted from before the claim was sent).
    """

    id: int
    attempt: int
    tries: int
    url: str
    host: str
    body: bytes
    lease_token: str
    waited: float
    expires_at: float

    @property
    def event_id(self) -> str:
        """The `webhook-id`, which is the same at every try."""
        return event_id(self.id)


@dataclass(frozen=True, slots=True)
class Result:
    """One finished attempt and what follows from it; `started` is on the monotonic clock."""

    delivery: Delivery
    attempt: Attempt
    decision: Decision
    started: float

    def without_response(self) -> Result:
        """Return it with nothing that came from outside, for a result that the database refuses."""
        bare = replace(
            self.attempt, detail="not recordable", status_code=None, addresses_refused=(), response_body=b""
        )
        return replace(self, attempt=bare)
