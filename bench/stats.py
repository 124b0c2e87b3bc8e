"""Variants alternate, percentiles are exact, figures are written with the digits that mean something."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0 to 1) of all values do not exceed. NaN of nothing.

    `ordered` is sorted, ascending. No interpolation and no buckets: it is one of the values.
    """
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def written(value: float) -> str:
    """Write three or four digits that mean something: 41234 -> 41 234, 0.01234 -> 0.0123."""
    if math.isnan(value):
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def alternate(runs: int, variants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Run each variant in turn, `runs` times round, so that what else the machine does hits all alike."""
    measured: dict[str, list[T]] = {name: [] for name in variants}
    for _ in range(runs):
        for name, run in variants.items():
            measured[name].append(run())
    return measured
