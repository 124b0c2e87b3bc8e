"""Figures of many turns are medians; RVQ claims two things of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from bench.checks import WORDS, Check
from bench.peers.system import SystemResult, Turn
from bench.stats import percentile, written

TIMES = 2.0  # the best Python peer's throughput


def median_of(result: SystemResult, figure: Callable[[Turn], float]) -> float:
    """Return the median of the turns; NaN when there is none."""
    return statistics.median(map(figure, result.turns)) if result.turns else math.nan


def throughput(result: SystemResult) -> float:
    return median_of(result, lambda turn: turn.throughput)


def fan_in_ms(result: SystemResult, share: float) -> float:
    """Return the median of the rounds' percentiles."""
    return median_of(result, lambda turn: percentile(sorted(turn.fan_in), share)) * 1e3


def cpu_us(result: SystemResult, part: str) -> float:
    return median_of(result, lambda turn: turn.cpu[part])


def single_calls(result: SystemResult) -> dict[str, float]:
    names = result.turns[0].single_calls if result.turns else {}
    return {name: statistics.median(turn.single_calls[name] for turn in result.turns) for name in names}


def check_claims(results: Sequence[SystemResult]) -> list[Check]:
    """Return a check of each of the two claims; none when RVQ or every peer has no figures."""
    rvq = next((one for one in results if one.system.name == "rvq" and one.turns), None)
    peers = [one for one in results if not one.system.ours and one.turns]
    if rvq is None or not peers:
        return []
    return [*_check_throughput(rvq, peers), _check_fan_in(rvq, peers)]


def told(checks: Sequence[Check]) -> list[str]:
    """Return a line for each check."""
    return [f"{check.name}: {check.found}: {WORDS[check.holds]}" for check in checks]


def _check_throughput(rvq: SystemResult, peers: Sequence[SystemResult]) -> list[Check]:
    python = [one for one in peers if one.system.language == "Python"]
    if not python:
        return []
    best = max(python, key=throughput)
    times = throughput(rvq) / throughput(best)
    rates = f"{written(throughput(rvq))} to {written(throughput(best))} a second ({best.system.title})"
    claim = f"(a) at least {TIMES:g} times the best Python peer"
    return [Check(claim, times >= TIMES, f"{times:.2f} times, {rates}")]


def _check_fan_in(rvq: SystemResult, peers: Sequence[SystemResult]) -> Check:
    best = min(peers, key=lambda one: fan_in_ms(one, 0.99))
    ours, theirs = fan_in_ms(rvq, 0.99), fan_in_ms(best, 0.99)
    found = f"{written(ours)} ms, the best peer's {written(theirs)} ms ({best.system.title})"
    return Check("(b) fan-in p99 below every peer's", ours < theirs, found)
