"""Exact percentiles over raw values, and how figures are written."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed. NaN of nothing.

    `ordered` is sorted, ascending. No interpolation and no buckets: it is one of the values.
    """
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def share_of(value: float, base: float) -> float:
    """`value / base`, NaN when there is no base."""
    return value / base if base else math.nan


def written(value: float) -> str:
    """Three or four figures that mean something: 41234 -> 41 234, 0.01234 -> 0.0123."""
    if math.isnan(value):
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is left-aligned, figures to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
