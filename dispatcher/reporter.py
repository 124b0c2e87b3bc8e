"""The reporter writes the metrics to a file, and their sums to the log.

The settings have no port for metrics, and none is needed: under systemd they go to `metrics.prom` in the
unit's runtime directory, where node_exporter's textfile collector takes them from. What the database knows
(waiting, pending, dead) is also exported by the API.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, write_to_textfile

from dispatcher.metrics import Metrics
from dispatcher.outbox.in_flight import InFlight

log = logging.getLogger(__name__)

WRITE_EVERY, LOG_EVERY = 5.0, 60.0


class Reporter:
    """`step` writes the file (if there is a folder for it) and, once a minute, a line to the log."""

    def __init__(self, metrics: Metrics, in_flight: InFlight, folder: Path | None) -> None:
        self._metrics = metrics
        self._in_flight = in_flight
        self._file = folder / "metrics.prom" if folder else None
        self._labelled = Labelled(metrics.registry, folder.name if folder else "")
        self._logged = time.monotonic()

    def step(self) -> float:
        self._metrics.set_by_label(self._metrics.in_flight, self._in_flight.by_host())
        if self._file:
            write_to_textfile(str(self._file), self._labelled)
        if time.monotonic() - self._logged >= LOG_EVERY:
            self._logged = time.monotonic()
            log.info("so far", extra=self.sums())
        return WRITE_EVERY

    def sums(self) -> dict[str, int]:
        """Return what was counted since the start, and how many are `running` and `unsettled` now."""
        return {
            "attempts": self._metrics.attempts,
            "delivered": self._metrics.delivered,
            "dead": self._metrics.dead,
            "running": self._in_flight.running,
            "unsettled": self._in_flight.unsettled,
        }


class Labelled:
    """A registry whose samples bear the dispatcher's name, since one collector reads the files of several."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        self._registry = registry
        self._label = {"dispatcher": name}

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s._replace(labels={**s.labels, **self._label}) for s in metric.samples]
            yield metric
