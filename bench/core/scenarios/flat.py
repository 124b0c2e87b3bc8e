"""Claim and complete should cost the same whatever has been finished and whatever waits."""

from __future__ import annotations

from functools import partial

from bench.core import scripts
from bench.core.finding import Finding, Size, compared
from bench.core.measured_database import MeasuredDatabase
from bench.core.pgbench import Load
from bench.core.sample import Variants
from bench.stats import alternate
from bench.svg import bar_chart
from rvq.embedded import Cluster

CLIENTS, LIMIT, SECONDS = 4, 10, 10
SHORT_BACKLOG = 1_000
SHOWN = ("transactions/s", "p50 ms", "p99 ms", "server CPU us/transaction", "WAL bytes/sub_task")
FLAT = {"p50 ms": 1.15, "p99 ms": 1.5, "server CPU us/transaction": None}


def history(cluster: Cluster, size: Size) -> Finding:
    """Compare an empty history with five million finished sub_tasks, in the partition that is written to."""
    finished = size.count(5_000_000, least=8_000)
    databases = {
        "none finished": MeasuredDatabase(cluster, "history_none"),
        f"{finished:,} finished": MeasuredDatabase(cluster, "history_long"),
    }
    databases[f"{finished:,} finished"].finish_many(finished)
    for database in databases.values():
        database.fill_queue(SHORT_BACKLOG, LIMIT)
    return _steady("Claim and complete, by how many sub_tasks were finished before", databases, size)


def backlog(cluster: Cluster, size: Size) -> Finding:
    """Compare a thousand queued with two million."""
    queued = size.count(2_000_000, least=4_000)
    databases = {}
    for count in (SHORT_BACKLOG, queued):
        databases[f"{count:,} queued"] = database = MeasuredDatabase(cluster, f"backlog_{count}")
        database.fill_queue(count, LIMIT)
    return _steady("Claim and complete, by how many sub_tasks are queued", databases, size)


def _steady(question: str, databases: dict[str, MeasuredDatabase], size: Size) -> Finding:
    """Create, claim and complete at the same pace, so that the backlog stays as long as it is."""
    load = Load(scripts.steady(LIMIT), CLIENTS, seconds=size.seconds(SECONDS), turns=True)
    samples = alternate(
        size.runs, {name: partial(database.run, load, LIMIT / 2) for name, database in databases.items()}
    )
    base, other = databases
    return Finding(
        question,
        samples,
        SHOWN,
        compared(samples, other, base, FLAT),
        plots={"latency": _latency_plot(question, samples)},
        notes=[
            f"{CLIENTS} connections; every second transaction of each creates a task of {LIMIT}, the"
            f" others claim {LIMIT} and complete them. Latencies are of claim and complete"
            " together, CPU and WAL of all."
        ],
    )


def _latency_plot(question: str, samples: Variants) -> str:
    groups: dict[str, dict[str, float]] = {}
    for name, runs in samples.items():
        for number, run in enumerate(runs, 1):
            groups.setdefault(f"run {number}", {})
            groups[f"run {number}"][f"p50, {name}"] = run.figure("p50 ms")
            groups[f"run {number}"][f"p99, {name}"] = run.figure("p99 ms")
    return bar_chart(question, "ms", groups)
