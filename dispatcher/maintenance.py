"""Maintenance: what must happen although nobody asks for it. A loop of its own for each step.

Each step is one bounded batch, called again at once while batches are full. Any number of dispatchers run
them: the database lets one at a time through each step, and the others pass.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from dispatcher.loops import Loop
from dispatcher.metrics import Metrics
from dispatcher.store import Store

log = logging.getLogger(__name__)

Work = Callable[[], int | None]

# Seconds between calls, and from how much done on the next call comes at once (0: never).
FREQUENT: Final = {
    "promote_due": (0.5, 1000),
    "expire_leases": (0.5, 500),
    "end_overdue_tasks": (0.5, 100),
    "expire_delivery_leases": (0.5, 500),
    "fold_counters": (1.0, 0),
    "raise_claim_floors": (0.5, 0),
    "rescue_below_floors": (60.0, 0),
    "check_admission": (1.0, 0),
    "create_partitions": (3600.0, 0),
}
RETENTION_EVERY, REPORT_EVERY, SWEEP_EVERY, AUDIT_EVERY = 600.0, 15.0, 10.0, 3600.0
SWEEP_BATCH = 1000


@dataclass
class MaintenanceStep:
    """`step` does `work` once and trace how it went; `work` returns how much, None if another does it."""

    name: str
    every: float
    work: Work
    metrics: Metrics
    full: int = 0
    at_start: bool = True

    def step(self) -> float:
        if not self.at_start:
            self.at_start = True
            return self.every * random.uniform(0.5, 1.0)
        began = time.monotonic()
        try:
            done = self.work()
        except Exception:
            self.metrics.step_failed.labels(self.name).inc()
            raise
        if done is not None:
            self._note(done, time.monotonic() - began)
        is_full = self.full > 0 and done is not None and done >= self.full
        return 0.0 if is_full else self.every * random.uniform(0.9, 1.1)

    def _note(self, done: int, seconds: float) -> None:
        self.metrics.step_ended.labels(self.name).set_to_current_time()
        self.metrics.step_seconds.labels(self.name).set(seconds)
        self.metrics.step_done.labels(self.name).inc(done)


class Sweep:
    """The safety net under fan-in: walks all open tasks, a batch a call. It should never find anything."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._after = 0

    def __call__(self) -> int:
        last_id, stranded = self._store.sweep_stranded_tasks(self._after, SWEEP_BATCH)
        self._after = last_id or 0
        if stranded:
            self._metrics.stranded.inc(stranded)
            log.error("tasks were stranded: a fault in the fan-in", extra={"tasks": stranded})
        return stranded


def maintenance_steps(store: Store, metrics: Metrics, retention_days: int) -> list[MaintenanceStep]:
    steps = [
        MaintenanceStep(name, every, _frequent(store, name), metrics, full)
        for name, (every, full) in FREQUENT.items()
    ]
    return [
        *steps,
        MaintenanceStep(
            "drop_expired_partitions",
            RETENTION_EVERY,
            lambda: store.drop_expired_partitions(retention_days),
            metrics,
            full=1,
        ),
        MaintenanceStep("sweep_stranded_tasks", SWEEP_EVERY, Sweep(store, metrics), metrics),
        MaintenanceStep("report", REPORT_EVERY, lambda: report(store, metrics), metrics),
        # Reads everything, so not at each of several restarts.
        MaintenanceStep("audit", AUDIT_EVERY, lambda: audit(store, metrics), metrics, at_start=False),
    ]


def maintenance_loops(steps: list[MaintenanceStep]) -> Iterator[Loop]:
    return (Loop(step.name, step.step) for step in steps)


def audit(store: Store, metrics: Metrics) -> int:
    """Export every counter that differs from the truth; repairing is an admin's decision."""
    drift = store.audit()
    metrics.drift.clear()
    for found in drift:
        metrics.drift.labels(found.queue, found.counter).set(found.counted - found.truth)
        facts = {"queue": found.queue, "counted": found.counted, "truth": found.truth}
        log.error("counter %s differs from the truth", found.counter, extra=facts)
    return len(drift)


def report(store: Store, metrics: Metrics) -> int:
    """Figures of the database that tell whether it keeps up."""
    metrics.set_by_label(metrics.oldest_due, store.waiting_by_host())
    for name, dead, size in store.table_figures():
        metrics.dead_tuples.labels(name).set(dead)
        metrics.table_bytes.labels(name).set(size)
    metrics.oldest_transaction.set(store.oldest_transaction_seconds())
    return 0


def _frequent(store: Store, name: str) -> Work:
    return lambda: store.run_step(name)
