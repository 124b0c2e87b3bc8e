"""Prometheus metrics of the API's processes.

Under several processes prometheus_client keeps values in files below PROMETHEUS_MULTIPROC_DIR, which has to
be set before this module is imported (app/server/hooks.py does). Labels only take values of fixed sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector

from app.web.metric_files import reading

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

REGISTRY = CollectorRegistry()
REQUEST_SECONDS = Histogram(
    "rvq_http_request_seconds",
    "Time from the request's headers to its response.",
    ("route", "method", "status"),
    buckets=BUCKETS,
    registry=REGISTRY,
)
PROBLEMS = Counter("rvq_http_problems", "Requests answered with a problem.", ("code",), registry=REGISTRY)
OUTCOMES = Counter(
    "rvq_worker_outcomes", "Items of worker batches by their outcome.", ("call", "outcome"), registry=REGISTRY
)
BATCHES = Counter(
    "rvq_rounds", "Statements that served calls which came close together.", ("call",), registry=REGISTRY
)
BATCHED_CALLS = Counter(
    "rvq_round_calls",
    "Calls that such statements served; divided by them: how many shared one.",
    ("call",),
    registry=REGISTRY,
)
CLAIMED = Counter("rvq_claimed_sub_tasks", "Sub_tasks handed out to workers.", registry=REGISTRY)
CREATED = Counter("rvq_created_tasks", "Tasks created.", registry=REGISTRY)


class RequestTimer(dict[int, Histogram]):
    """The histograms of one route by the hundreds of the status (2 for 2xx), each made when first needed."""

    def __init__(self, route: str, method: str) -> None:
        self._route, self._method = route, method

    def __missing__(self, status_class: int) -> Histogram:
        child = self[status_class] = REQUEST_SECONDS.labels(self._route, self._method, f"{status_class}xx")
        return child


UNROUTED = RequestTimer("none", "none")


def count_problem(code: str) -> None:
    _problem_child(code).inc()


def count_outcomes(call: str, outcomes: Iterable[str]) -> None:
    """Count the outcomes of one `call`: complete, heartbeat or release."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    for outcome, count in counts.items():
        _outcome_child(call, outcome).inc(count)


class BatchCounter:
    """The counters of coalesced calls and of their statements; `call` is claim, complete or create."""

    def __init__(self, call: str) -> None:
        self.batches = BATCHES.labels(call)
        self.calls = BATCHED_CALLS.labels(call)


def exposition(
    stats: Mapping[str, object] | None, maintenance_seconds: float | None = None, is_up: bool = True
) -> bytes:
    """Return the metrics of all processes and of `stats`, the result of rvq.stats(), unless it gave none.

    `maintenance_seconds`: how long ago the last maintenance was. `is_up`: whether the database answered.
    """
    own = CollectorRegistry()
    own.register(_Stats(stats, maintenance_seconds, is_up))
    return _of_processes() + generate_latest(own)


def _of_processes() -> bytes:
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    with reading(Path(folder)):
        return generate_latest(registry)


class _Stats:
    """A collector of what the database says at each scrape, so that no one process has to export it."""

    def __init__(
        self, stats: Mapping[str, object] | None, maintenance_seconds: float | None, is_up: bool
    ) -> None:
        self._stats = stats
        self._maintenance_seconds = maintenance_seconds
        self._is_up = is_up

    def collect(self) -> Iterable[Metric]:
        up = "Whether the database answered this scrape."
        yield GaugeMetricFamily("rvq_database_up", up, value=int(self._is_up))
        if self._maintenance_seconds is not None:
            text = "How long ago a dispatcher last did its maintenance."
            yield GaugeMetricFamily("rvq_maintenance_age_seconds", text, value=self._maintenance_seconds)
        for group in ("tasks", "sub_tasks", "deliveries"):
            values = (self._stats or {}).get(group)
            if isinstance(values, Mapping):
                yield _by_status(group, values)
        oldest = (self._stats or {}).get("oldest_queued_seconds")
        if self._stats is not None:
            age = float(oldest) if isinstance(oldest, int | float) else 0.0
            text = "Age of the oldest sub_task that waits to be claimed."
            yield GaugeMetricFamily("rvq_oldest_queued_seconds", text, value=age)


def _by_status(group: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"rvq_{group}", f"{group.capitalize()} by status.", labels=["status"])
    for status, value in values.items():
        family.add_metric([status], value)
    return family


@cache
def _problem_child(code: str) -> Counter:
    return PROBLEMS.labels(code)


@cache
def _outcome_child(call: str, outcome: str) -> Counter:
    return OUTCOMES.labels(call, outcome)
