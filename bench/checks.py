"""Checks: what must hold, what was found, and the words that reports have for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.stats import written

WORDS = {True: "holds", False: "**MISSED**", None: ""}


@dataclass(frozen=True)
class Check:
    """One thing that must hold; `found` tells what was seen and what is allowed."""

    name: str
    holds: bool
    found: str

    @property
    def mark(self) -> str:
        return "ok" if self.holds else "FAIL"


def at_most(name: str, value: float, most: float, unit: str = "") -> Check:
    """Return a check of a figure against its bound; NaN (nothing was measured) never holds."""
    return Check(name, value <= most, f"{written(value)}{unit}; at most {written(most)}")


def failed(checks: Iterable[Check]) -> list[str]:
    """Return the names of the checks that do not hold."""
    return [check.name for check in checks if not check.holds]
