"""A finding of a scenario has the figures of its variants, ratios held against targets, plots and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.core.sample import Variants, ratio


@dataclass(frozen=True)
class Size:
    """How much of the full measurement is done: `factor` 1 is all of it."""

    factor: float = 1.0
    runs: int = 5

    def count(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.factor))

    def seconds(self, full: float) -> float:
        return max(1.0, full * self.factor)


@dataclass(frozen=True)
class Target:
    """A figure and its bound, `most` or `least`; with neither it is only told."""

    what: str
    value: float
    most: float | None = None
    least: float | None = None

    @property
    def holds(self) -> bool | None:
        if self.most is not None:
            return self.value <= self.most
        return self.value >= self.least if self.least is not None else None


@dataclass(frozen=True)
class Finding:
    """What a scenario found.

    `shown`: the figures for the table. `plots`: SVG by name. `tables`: further Markdown by title.
    """

    question: str
    samples: Variants
    shown: Sequence[str]
    targets: Sequence[Target]
    plots: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


def compared(samples: Variants, of: str, to: str, most: dict[str, float | None]) -> list[Target]:
    """Return a target for each figure's ratio of one variant to another."""
    return [
        Target(f"{figure}: {of} to {to}", ratio(samples, figure, of, to), most=bound)
        for figure, bound in most.items()
    ]
