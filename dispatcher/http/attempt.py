"""The result of one POST, and the trace that is recorded while it is made."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from app.webhooks.outcomes import Outcome

# Why a response was not read whole: over the limit, out of time, cut by the peer, unclear framing.
Cut = Literal["size", "deadline", "peer", "framing"]


@dataclass(frozen=True, slots=True)
class Phases:
    """Milliseconds of each phase; None for a phase not reached, or not needed on a kept connection.

    `send` ends when the kernel has the request, `first_byte` is the wait after that, `total` is everything.
    """

    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    send: float | None = None
    first_byte: float | None = None
    total: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One finished delivery attempt. `detail` is a line for people; `response_body` is 8 KiB at most."""

    outcome: Outcome
    detail: str
    status_code: int | None = None
    retry_after: float | None = None
    phases: Phases = Phases()
    address: str | None = None
    addresses_refused: tuple[str, ...] = ()
    tls_version: str | None = None
    reused: bool = False
    response_body: bytes = b""
    cut: Cut | None = None

    def as_detail(self) -> dict[str, object]:
        """Return the ledger's JSON: what explains this attempt beside outcome, status and response body."""
        phases = {
            name: round(value, 3)
            for name in Phases.__slots__
            if (value := getattr(self.phases, name)) is not None
        }
        facts: dict[str, object] = {
            "summary": self.detail,
            "phases_ms": phases,
            "address": self.address,
            "addresses_refused": list(self.addresses_refused) or None,
            "tls_version": self.tls_version,
            "reused": self.reused or None,
            "retry_after_seconds": self.retry_after,
            "answer_cut": self.cut,
        }
        return {name: value for name, value in facts.items() if value is not None}


class AttemptFailed(Exception):
    """The attempt is over, wherever this is raised inside it; `outcome` and `detail` are its result's."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


@dataclass(slots=True)
class AttemptTrace:
    """Phase times and facts about the connection, recorded while an attempt runs."""

    started: float = field(default_factory=time.monotonic)
    phase_started: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    address: str | None = None
    addresses_refused: tuple[str, ...] = ()
    tls_version: str | None = None
    reused: bool = False

    def __post_init__(self) -> None:
        self.phase_started = self.started

    def end_phase(self, phase: str, moment: float | None = None) -> None:
        """End `phase` at that moment of the monotonic clock, else now; the next one begins."""
        if moment is None:
            moment = time.monotonic()
        self.phases[phase] = (moment - self.phase_started) * 1000
        self.phase_started = moment

    def restart(self) -> None:
        """Forget a kept connection's phases and facts, since a fresh one follows; `total` goes on."""
        self.phases.clear()
        self.address = self.tls_version = None
        self.reused = False
        self.phase_started = time.monotonic()

    def finish(
        self,
        outcome: Outcome,
        detail: str,
        *,
        status_code: int | None = None,
        retry_after: float | None = None,
        response_body: bytes = b"",
        cut: Cut | None = None,
    ) -> Attempt:
        """Return the attempt, which is over."""
        return Attempt(
            outcome=outcome,
            detail=detail,
            status_code=status_code,
            retry_after=retry_after,
            phases=Phases(**self.phases, total=(time.monotonic() - self.started) * 1000),
            address=self.address,
            addresses_refused=self.addresses_refused,
            tls_version=self.tls_version,
            reused=self.reused,
            response_body=response_body,
            cut=cut,
        )
