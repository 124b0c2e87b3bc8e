"""What the dispatcher counts, for Prometheus, and the loop that hands it out.

The settings have no port for it, and none is needed: under systemd the figures are written to
`metrics.prom` in the unit's runtime directory, where node_exporter's textfile collector takes them from.
Once a minute the sums go to the log too. What the database knows (waiting, pending, dead) is also exported
by the API.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, write_to_textfile

from dispatcher.delivery import Result
from dispatcher.http.attempt import Phases
from dispatcher.outbox.in_flight import InFlight

log = logging.getLogger(__name__)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600)
WRITE_EVERY, LOG_EVERY = 5.0, 60.0
PHASES = ("dns", "connect", "tls", "send", "first_byte", "total")


class Metrics:
    """One process's figures, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._attempts = Counter(
            "rvq_delivery_attempts", "Attempts by outcome", ["outcome"], registry=registry
        )
        self._ended = Counter("rvq_deliveries_ended", "Deliveries by end", ["status"], registry=registry)
        self._phases = Histogram(
            "rvq_delivery_phase_seconds", "Phases of attempts", ["phase"], registry=registry, buckets=SECONDS
        )
        self._lag = Histogram(
            "rvq_delivery_lag_seconds",
            "From an event to its delivery, where the first attempt delivered it",
            registry=registry,
            buckets=SECONDS,
        )
        self.leases_lost = Counter(
            "rvq_delivery_leases_lost", "Results that came too late to be recorded", registry=registry
        )
        self.in_flight = Gauge("rvq_deliveries_in_flight", "Attempts running", ["host"], registry=registry)
        self.oldest_due = Gauge(
            "rvq_delivery_oldest_due_seconds", "Oldest due delivery", ["host"], registry=registry
        )
        self.step_ended = Gauge(
            "rvq_maintenance_last_success_timestamp_seconds", "Last success", ["step"], registry=registry
        )
        self.step_seconds = Gauge(
            "rvq_maintenance_duration_seconds", "How long it took then", ["step"], registry=registry
        )
        self.step_done = Counter("rvq_maintenance_done", "What it did, in rows", ["step"], registry=registry)
        self.step_failed = Counter("rvq_maintenance_failures", "Failures", ["step"], registry=registry)
        self.stranded = Counter(
            "rvq_stranded_tasks", "Tasks the safety net had to end: a fault of ours", registry=registry
        )
        self.drift = Gauge("rvq_counter_drift", "Counter less truth", ["queue", "counter"], registry=registry)
        self.dead_tuples = Gauge("rvq_table_dead_tuples", "Dead tuples", ["table"], registry=registry)
        self.table_bytes = Gauge("rvq_table_bytes", "Size with indexes", ["table"], registry=registry)
        self.oldest_transaction = Gauge(
            "rvq_oldest_transaction_seconds", "Age of the oldest transaction", registry=registry
        )
        self._shown: dict[Gauge, set[str]] = {}
        self.attempts = 0
        self.delivered = 0
        self.dead = 0
        self._by_phase = {phase: self._phases.labels(phase) for phase in PHASES}

    def note(self, result: Result) -> None:
        """An attempt was recorded. Called by the settle loop only."""
        attempt, kind = result.attempt, result.decision.kind
        self.attempts += 1
        self._attempts.labels(attempt.outcome).inc()
        self._note_phases(attempt.phases)
        if kind == "delivered":
            self.delivered += 1
            if result.delivery.attempt == 1:
                self._lag.observe(max(0.0, result.delivery.waited) + attempt.phases.total / 1000)
        elif kind == "dead":
            self.dead += 1
        if kind != "retry":
            self._ended.labels(kind).inc()

    def _note_phases(self, phases: Phases) -> None:
        for phase, histogram in self._by_phase.items():
            milliseconds = getattr(phases, phase)
            if milliseconds is not None:
                histogram.observe(milliseconds / 1000)

    def set_by_label(self, gauge: Gauge, values: Mapping[str, float]) -> None:
        """Exactly these: what is not there any more is not shown any more."""
        for label, value in values.items():
            gauge.labels(label).set(value)
        for label in self._shown.get(gauge, set()) - set(values):
            gauge.remove(label)
        self._shown[gauge] = set(values)


class Labelled:
    """The figures with the dispatcher's name, since one collector reads the files of several."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        self._registry = registry
        self._label = {"dispatcher": name}

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s._replace(labels={**s.labels, **self._label}) for s in metric.samples]
            yield metric


class Reporter:
    """`step` writes the file (if there is a folder for it) and, once a minute, a line to the log."""

    def __init__(self, metrics: Metrics, in_flight: InFlight, folder: Path | None) -> None:
        self._metrics = metrics
        self._in_flight = in_flight
        self._file = folder / "metrics.prom" if folder else None
        self._named = Labelled(metrics.registry, folder.name if folder else "")
        self._logged = time.monotonic()

    def step(self) -> float:
        self._metrics.set_by_label(self._metrics.in_flight, self._in_flight.by_host())
        if self._file:
            write_to_textfile(str(self._file), self._named)
        if time.monotonic() - self._logged >= LOG_EVERY:
            self._logged = time.monotonic()
            log.info("so far", extra=self.sums())
        return WRITE_EVERY

    def sums(self) -> dict[str, int]:
        """Since the start, but `running` and `unsettled`, which are now."""
        return {
            "attempts": self._metrics.attempts,
            "delivered": self._metrics.delivered,
            "dead": self._metrics.dead,
            "running": self._in_flight.running,
            "unsettled": self._in_flight.unsettled,
        }
