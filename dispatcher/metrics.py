"""The dispatcher's metrics for Prometheus. reporter.py writes them out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dispatcher.delivery import Result
from dispatcher.http.attempt import Phases

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600)


class Metrics:
    """One process's metrics, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # Sums for the log and the service manager, which would cost a walk over the registry.
        self.attempts = self.delivered = self.dead = 0
        self._shown: dict[Gauge, set[str]] = {}
        self._add_deliveries()
        self._add_maintenance()

    def _add_deliveries(self) -> None:
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=SECONDS)
        self._attempts = counter("rvq_delivery_attempts", "Attempts by outcome", ["outcome"])
        self._ended = counter("rvq_deliveries_ended", "Deliveries by end", ["status"])
        phases = histogram("rvq_delivery_phase_seconds", "Phases of attempts", ["phase"])
        self._phases = {phase: phases.labels(phase) for phase in Phases.__slots__}
        self._lag = histogram(
            "rvq_delivery_lag_seconds", "From an event to its delivery, where the first attempt delivered it"
        )
        self.leases_lost = counter("rvq_delivery_leases_lost", "Results that came too late to be recorded")
        self.in_flight = gauge("rvq_deliveries_in_flight", "Attempts running", ["host"])
        self.oldest_due = gauge("rvq_delivery_oldest_due_seconds", "Oldest due delivery", ["host"])

    def _add_maintenance(self) -> None:
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.step_ended = gauge("rvq_maintenance_last_success_timestamp_seconds", "Last success", ["step"])
        self.step_seconds = gauge("rvq_maintenance_duration_seconds", "How long it took then", ["step"])
        self.step_done = counter("rvq_maintenance_done", "What it did, in rows", ["step"])
        self.step_failed = counter("rvq_maintenance_failures", "Failures", ["step"])
        self.step_due = gauge("rvq_maintenance_due", "What is due and not done, counted to 10 000", ["step"])
        self.step_behind = gauge("rvq_maintenance_behind_seconds", "How long the oldest is due", ["step"])
        self.stranded = counter("rvq_stranded_tasks", "Tasks the safety net had to end: a fault of ours")
        self.drift = gauge("rvq_counter_drift", "Counter less truth", ["queue", "counter"])
        self.dead_tuples = gauge("rvq_table_dead_tuples", "Dead tuples", ["table"])
        self.table_bytes = gauge("rvq_table_bytes", "Size with indexes", ["table"])
        self.set_aside = gauge("rvq_set_aside", "What was found damaged and was ended", ["reason"])
        self.open_days = gauge("rvq_open_days", "Days past retention that an open task or delivery keeps")
        self.oldest_transaction = gauge(
            "rvq_oldest_transaction_seconds", "Age of what holds vacuum back longest, whatever its kind"
        )
        self.horizon = gauge("rvq_horizon_seconds", "Age of what holds vacuum back longest", ["kind"])

    def record(self, result: Result) -> None:
        """Count an attempt that was recorded. Called by the settle loop only."""
        attempt, kind = result.attempt, result.decision.kind
        self.attempts += 1
        self._attempts.labels(attempt.outcome).inc()
        for phase, histogram in self._phases.items():
            milliseconds = getattr(attempt.phases, phase)
            if milliseconds is not None:
                histogram.observe(milliseconds / 1000)
        if kind == "delivered":
            self.delivered += 1
            if result.delivery.attempt == 1:
                self._lag.observe(max(0.0, result.delivery.waited) + attempt.phases.total / 1000)
        elif kind == "dead":
            self.dead += 1
        if kind != "retry":
            self._ended.labels(kind).inc()

    def set_by_label(self, gauge: Gauge, values: Mapping[str, float]) -> None:
        """Set the gauge to exactly these values: a label that is not among them is shown no more."""
        for label, value in values.items():
            gauge.labels(label).set(value)
        for label in self._shown.get(gauge, set()) - set(values):
            gauge.remove(label)
        self._shown[gauge] = set(values)
