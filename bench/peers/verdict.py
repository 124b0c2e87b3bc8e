"""Figures of many turns as medians, and what RVQ claims of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from bench.peers.system import Outcome, Turn
from bench.stats import percentile, written

TIMES = 2.0  # the best Python peer's throughput


def median_of(outcome: Outcome, figure: Callable[[Turn], float]) -> float:
    """NaN when it has no turn."""
    return statistics.median(map(figure, outcome.turns)) if outcome.turns else math.nan


def throughput(outcome: Outcome) -> float:
    return median_of(outcome, lambda turn: turn.throughput)


def fan_in_ms(outcome: Outcome, share: float) -> float:
    """The median of the rounds' percentiles."""
    return median_of(outcome, lambda turn: percentile(sorted(turn.fan_in), share)) * 1e3


def cpu_us(outcome: Outcome, part: str) -> float:
    return median_of(outcome, lambda turn: turn.cpu[part])


def single_calls(outcome: Outcome) -> dict[str, float]:
    names = outcome.turns[0].single_calls if outcome.turns else {}
    return {name: statistics.median(turn.single_calls[name] for turn in outcome.turns) for name in names}


def verdicts(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each of the two claims. Nothing when RVQ or every peer has no figures."""
    rvq = next((one for one in outcomes if one.system.name == "rvq" and one.turns), None)
    peers = [one for one in outcomes if not one.system.ours and one.turns]
    if rvq is None or not peers:
        return []
    return [*_throughput_verdict(rvq, peers), _fan_in_verdict(rvq, peers)]


def _throughput_verdict(rvq: Outcome, peers: Sequence[Outcome]) -> list[str]:
    python = [one for one in peers if one.system.language == "Python"]
    if not python:
        return []
    best = max(python, key=throughput)
    times = throughput(rvq) / throughput(best)
    claim = f"(a) at least {TIMES:g} times the best Python peer"
    told = f"{written(throughput(rvq))} to {written(throughput(best))} a second ({best.system.title})"
    return [f"{claim}: {times:.2f} times, {told}: {_word(times >= TIMES)}"]


def _fan_in_verdict(rvq: Outcome, peers: Sequence[Outcome]) -> str:
    best = min(peers, key=lambda one: fan_in_ms(one, 0.99))
    ours, theirs = fan_in_ms(rvq, 0.99), fan_in_ms(best, 0.99)
    told = f"{written(ours)} ms, the best peer's {written(theirs)} ms ({best.system.title})"
    return f"(b) fan-in p99 below every peer's: {told}: {_word(ours < theirs)}"


def _word(holds: bool) -> str:
    return "holds" if holds else "**MISSED**"
