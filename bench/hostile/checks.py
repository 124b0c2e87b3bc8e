"""What must hold of the first attempts, of the healthy host and of the dispatcher's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bench.checks import Check
from bench.hostile import Behaviour
from bench.stats import percentile

MIB = 1024 * 1024
DEADLINE_SLACK = 0.5
MOST_MEMORY = 16 * MIB
MOST_LAG_P99 = 1.0
MOST_KEPT = 8 * 1024
# Seconds from an attempt to the next: the schedule's first step and its longest, each with its jitter.
SOONEST, LATEST = 5 * 0.8, 86_400 * 1.2


@dataclass
class FirstAttempt:
    """One behaviour's first attempt, as the API tells it; `faults` is empty when it is as it should be."""

    name: str
    outcome: str = "-"
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


def check_delivery(
    name: str, behaviour: Behaviour, delivery: dict[str, Any] | None, deadline: float
) -> FirstAttempt:
    """Return the first attempt of a delivery of GET /v1/tasks/{id}/deliveries, with its faults.

    `delivery` is None, or has no attempts, when nothing came in time.
    """
    if not delivery or not delivery["attempts"]:
        return FirstAttempt(name, faults=["no attempt was recorded"])
    attempt = delivery["attempts"][0]
    detail = attempt["detail"]
    if "phases_ms" not in detail:
        return FirstAttempt(name, attempt["outcome"], faults=[f"not explained: {detail}"])
    first = FirstAttempt(name, attempt["outcome"], detail["phases_ms"]["total"] / 1000)
    if first.outcome not in behaviour.outcomes:
        first.faults.append(f"should be {' or '.join(behaviour.outcomes)}: {detail}")
    if detail.get("answer_cut") != behaviour.cut:
        first.faults.append(f"cut by {detail.get('answer_cut')}, should be {behaviour.cut}")
    if first.seconds > deadline + DEADLINE_SLACK:
        first.faults.append("over the deadline")
    if len(attempt["answer"] or "") > MOST_KEPT:
        first.faults.append("too much of the answer is kept")
    first.faults += _faults_of_what_follows(delivery)
    return first


def check_lags(name: str, lags: Sequence[float], sent: int) -> Check:
    """Check that all were delivered in time; `lags` in seconds, from the event to its arrival."""
    p50, p99, longest = (percentile(sorted(lags), share) for share in (0.5, 0.99, 1))
    found = (
        f"{len(lags)} of {sent} delivered, lag p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, "
        f"longest {longest * 1000:.0f} ms (bound: all, p99 {MOST_LAG_P99:g} s)"
    )
    return Check(name, len(lags) >= sent > 0 and p99 <= MOST_LAG_P99, found)


def check_memory(grown: int) -> Check:
    found = f"{grown / MIB:.1f} MiB more at most (bound: {MOST_MEMORY // MIB} MiB)"
    return Check("memory", grown <= MOST_MEMORY, found)


def _faults_of_what_follows(delivery: dict[str, Any]) -> list[str]:
    """Check that it ended, or is tried again within the schedule, whatever the receiver asked for."""
    last = delivery["attempts"][-1]["outcome"]
    if delivery["status"] != "pending":
        expected = {"delivered": "delivered", "gone": "dead"}.get(last)
        return [] if delivery["status"] == expected else [f"{delivery['status']} after {last}"]
    if delivery["next_attempt_at"] is None or len(delivery["attempts"]) > 1:
        return []
    ended, following = delivery["attempts"][0]["ended_at"], delivery["next_attempt_at"]
    wait = (datetime.fromisoformat(following) - datetime.fromisoformat(ended)).total_seconds()
    return [] if SOONEST <= wait <= LATEST else [f"next attempt after {wait:.0f} s"]
