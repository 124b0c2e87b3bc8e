"""A sample is one measured run; figures are compared by the medians of several."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.stats import percentile

# How each figure of a run is worked out, in the order in which tables show them.
FIGURES: dict[str, Callable[[Sample], float]] = {
    "transactions/s": lambda s: s.transactions / s.seconds,
    "sub_tasks/s": lambda s: s.sub_tasks / s.seconds,
    "p50 ms": lambda s: percentile(s.latencies, 0.5) * 1e3,
    "p99 ms": lambda s: percentile(s.latencies, 0.99) * 1e3,
    "server CPU us/transaction": lambda s: s.server_cpu_seconds / s.transactions * 1e6,
    "server CPU us/sub_task": lambda s: s.server_cpu_seconds / s.sub_tasks * 1e6,
    "WAL bytes/sub_task": lambda s: s.wal_bytes / s.sub_tasks,
    "full pages/sub_task": lambda s: s.full_pages / s.sub_tasks,
    "commits/sub_task": lambda s: s.commits / s.sub_tasks,
    "pgbench CPU us/transaction": lambda s: s.client_cpu_seconds / s.transactions * 1e6,
}


@dataclass(frozen=True)
class Sample:
    """Totals of one run. `latencies`: seconds, ascending, of the transactions that are looked at."""

    transactions: int
    sub_tasks: float
    seconds: float
    latencies: Sequence[float] = field(repr=False)
    statements: Sequence[tuple[str, float]]
    server_cpu_seconds: float
    client_cpu_seconds: float
    wal_bytes: float
    full_pages: float
    commits: float

    def figure(self, name: str) -> float:
        return FIGURES[name](self)

    def figures(self) -> dict[str, float]:
        return {name: self.figure(name) for name in FIGURES}


Variants = dict[str, list[Sample]]


def median(samples: Sequence[Sample], figure: str) -> float:
    return statistics.median(sample.figure(figure) for sample in samples)


def ratio(samples: Variants, figure: str, of: str, to: str) -> float:
    """Return the median of one variant divided by that of another."""
    return median(samples[of], figure) / median(samples[to], figure)
