"""Each scenario takes the cluster and a size and returns what it found."""

from __future__ import annotations

from collections.abc import Callable

from bench.core.finding import Finding, Size
from bench.core.scenarios.bloat import bloat
from bench.core.scenarios.contention import connections, create_sizes, fan_in
from bench.core.scenarios.flat import backlog, history
from bench.core.scenarios.horizon import horizon
from bench.core.scenarios.life import batch_life, single_life
from bench.core.scenarios.retention import retention
from rvq.embedded import Cluster

Scenario = Callable[[Cluster, Size], Finding]

SCENARIOS: dict[str, Scenario] = {
    "history": history,
    "backlog": backlog,
    "horizon": horizon,
    "fan-in": fan_in,
    "connections": connections,
    "create-sizes": create_sizes,
    "single-life": single_life,
    "batch-life": batch_life,
    "retention": retention,
    "bloat": bloat,
}
