"""What was seen, against what must hold. Every rule names what broke it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bench.hostile import Behaviour
from bench.hostile.healthy import Lags

MIB = 1024 * 1024
DEADLINE_SLACK = 0.5
MOST_MEMORY = 16 * MIB
MOST_LAG_P99 = 1.0
MOST_KEPT = 8 * 1024
# Seconds from an attempt to the next: the schedule's first step and its longest, each with its jitter.
SOONEST, LATEST = 5 * 0.8, 86_400 * 1.2


@dataclass
class Row:
    """One behaviour's first attempt, as the ledger tells it through the API."""

    name: str
    outcome: str = "-"
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


@dataclass
class Finding:
    """One bound of the whole run."""

    name: str
    seen: str
    bound: str
    holds: bool


def judge_delivery(name: str, behaviour: Behaviour, delivery: dict[str, Any] | None, deadline: float) -> Row:
    """`delivery` as of GET /v1/tasks/{id}/deliveries; None or without attempts when nothing came in time."""
    if not delivery or not delivery["attempts"]:
        return Row(name, faults=["no attempt was recorded"])
    attempt = delivery["attempts"][0]
    detail = attempt["detail"]
    if "phases_ms" not in detail:
        return Row(name, attempt["outcome"], faults=[f"not explained: {detail}"])
    row = Row(name, attempt["outcome"], detail["phases_ms"]["total"] / 1000)
    if row.outcome not in behaviour.outcomes:
        row.faults.append(f"should be {' or '.join(behaviour.outcomes)}: {detail}")
    if detail.get("answer_cut") != behaviour.cut:
        row.faults.append(f"cut by {detail.get('answer_cut')}, should be {behaviour.cut}")
    if row.seconds > deadline + DEADLINE_SLACK:
        row.faults.append("over the deadline")
    if len(attempt["answer"] or "") > MOST_KEPT:
        row.faults.append("too much of the answer is kept")
    row.faults += _judge_what_follows(delivery)
    return row


def judge_lags(name: str, lags: Lags, sent: int) -> Finding:
    arrived, p99 = len(lags.seconds), lags.percentile(0.99)
    seen = (
        f"{arrived} of {sent} delivered, lag p50 {lags.percentile(0.5) * 1000:.0f} ms, "
        f"p99 {p99 * 1000:.0f} ms, longest {lags.percentile(1) * 1000:.0f} ms"
    )
    return Finding(name, seen, f"all, p99 {MOST_LAG_P99:g} s", arrived >= sent > 0 and p99 <= MOST_LAG_P99)


def judge_memory(grown: int) -> Finding:
    bound = f"{MOST_MEMORY // MIB} MiB"
    return Finding("memory", f"{grown / MIB:.1f} MiB more at most", bound, grown <= MOST_MEMORY)


def _judge_what_follows(delivery: dict[str, Any]) -> list[str]:
    """It ended, or its next attempt is within the schedule's bounds, whatever the receiver asked for."""
    last = delivery["attempts"][-1]["outcome"]
    if delivery["status"] != "pending":
        expected = {"delivered": "delivered", "gone": "dead"}.get(last)
        return [] if delivery["status"] == expected else [f"{delivery['status']} after {last}"]
    if delivery["next_attempt_at"] is None or len(delivery["attempts"]) > 1:
        return []
    ended, following = delivery["attempts"][0]["ended_at"], delivery["next_attempt_at"]
    wait = (datetime.fromisoformat(following) - datetime.fromisoformat(ended)).total_seconds()
    return [] if SOONEST <= wait <= LATEST else [f"next attempt after {wait:.0f} s"]
