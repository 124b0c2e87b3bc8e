"""Every metric that RVQ exports, with its labels, taken from the very objects that export them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.web import metrics
from dispatcher.metrics import Metrics

STATS = {
    "tasks": {"queued": 1},
    "sub_tasks": {"queued": 1},
    "deliveries": {"pending": 1},
    "oldest_queued_seconds": 1.0,
}
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}
# What is no label of ours: `le` of every histogram, `dispatcher` of every file of a dispatcher's.
NAME = re.compile(r"\brvq_[a-z_]+\b")
SELECTOR = re.compile(r"\b(rvq_[a-z_]+)\{([^}]*)\}")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
STRING = re.compile(r'"[^"]*"')


def exported() -> dict[str, set[str]]:
    """Sample names, and the labels that each may have."""
    api = {name: {*labels, "instance"} for name, labels in _of_registry(metrics.REGISTRY).items()}
    families = text_string_to_metric_families(metrics.exposition(STATS, 0.0).decode())
    for family in families:
        # When a counter began, which prometheus_client adds, is nothing that anybody looks at.
        for sample in (one for one in family.samples if not one.name.endswith("_created")):
            api.setdefault(sample.name, {*sample.labels, "instance"})
    sender = _of_registry(Metrics().registry)
    return api | {name: {*labels, "dispatcher", "instance"} for name, labels in sender.items()}


def _of_registry(registry: CollectorRegistry) -> dict[str, set[str]]:
    """A metric without a sample yet has no child to read labels from, so its own list is asked."""
    found: dict[str, set[str]] = {}
    for collector in set(registry._collector_to_names):
        labels = set(getattr(collector, "_labelnames", ()))
        for family in _described(collector):
            for suffix in SUFFIXES[family.type]:
                found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def _described(collector: object) -> Iterable[Metric]:
    described: Iterable[Metric] = collector.describe()  # type: ignore[attr-defined]
    return described


def unknown(expression: str) -> Iterator[str]:
    """Metrics and labels of a PromQL expression that nothing exports."""
    known = exported()
    names = set(NAME.findall(STRING.sub('""', expression)))
    yield from (name for name in names if name not in known)
    for name, matchers in SELECTOR.findall(expression):
        labels = re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", STRING.sub('""', matchers))
        yield from (f"{name}{{{label}}}" for label in labels if label not in known.get(name, ()))
    reachable = set().union(*(known.get(name, set()) for name in names))
    for group in GROUPING.findall(expression):
        yield from (label for label in re.split(r"\s*,\s*", group.strip()) if label not in reachable)
