"""Many clients meet at one queue head and one parent row; a bigger create saves something."""

from __future__ import annotations

import math
from functools import partial

from bench.core import scripts
from bench.core.finding import Finding, Size, Target, compared
from bench.core.measured_database import MeasuredDatabase
from bench.core.pgbench import Load
from bench.core.sample import Sample, median
from bench.core.scenarios.flat import SHOWN
from bench.stats import alternate
from bench.svg import bar_chart, line_chart
from rvq.embedded import Cluster

FAN_IN_CLIENTS, FAN_IN_LIMIT = 16, 10
CONNECTIONS = (1, 4, 16, 32)
CREATE_SIZES = (1, 10, 100, 1_000)
SECONDS = 10


def fan_in(cluster: Cluster, size: Size) -> Finding:
    """Compare one task of 10 000 sub_tasks with a thousand of 10, each finished by 16 clients."""
    sub_tasks = size.count(10_000, least=320)
    database = MeasuredDatabase(cluster, "fan_in")
    one, many = f"1 task of {sub_tasks:,}", f"{sub_tasks // 10:,} tasks of 10"
    samples = alternate(
        size.runs,
        {
            one: partial(_drain, database, sub_tasks, sub_tasks),
            many: partial(_drain, database, sub_tasks, 10),
        },
    )
    shown = ("sub_tasks/s", "p50 ms", "p99 ms", "server CPU us/sub_task", "WAL bytes/sub_task")
    question = "Fan-in: all sub_tasks of one task, or of many"
    rates = {name: {"sub_tasks/s": median(runs, "sub_tasks/s")} for name, runs in samples.items()}
    return Finding(
        question,
        samples,
        shown,
        compared(samples, one, many, dict.fromkeys(shown[:-1])),
        plots={"rate": bar_chart(question, "sub_tasks a second", rates)},
        notes=[f"{FAN_IN_CLIENTS} connections, claim {FAN_IN_LIMIT} and complete them until none is left."],
    )


def _drain(database: MeasuredDatabase, sub_tasks: int, per_task: int) -> Sample:
    database.execute("SELECT rvq.reset()")
    database.fill_queue(sub_tasks, per_task)
    turns = math.ceil(sub_tasks / FAN_IN_LIMIT / FAN_IN_CLIENTS)
    load = Load(scripts.drain(FAN_IN_LIMIT), FAN_IN_CLIENTS, transactions=turns)
    return database.run(load, sub_tasks / (turns * FAN_IN_CLIENTS))


def connections(cluster: Cluster, size: Size) -> Finding:
    """Measure the single-call life of a task at 1, 4, 16 and 32 connections."""
    database = MeasuredDatabase(cluster, "connections")
    loads = {count: Load(scripts.life(2), count, seconds=size.seconds(SECONDS)) for count in CONNECTIONS}
    samples = alternate(
        size.runs, {_connections(count): partial(database.run, load, 2) for count, load in loads.items()}
    )
    rates = [(float(count), median(samples[_connections(count)], "transactions/s")) for count in CONNECTIONS]
    return Finding(
        "Whole tasks (create 2, claim 2, complete 2, event), by connections",
        samples,
        SHOWN,
        compared(samples, _connections(32), _connections(16), {"transactions/s": None, "p99 ms": None}),
        plots={"rate": line_chart("Whole tasks a second", "connections", "tasks/s", {"median": rates})},
        notes=["One pgbench transaction is a whole task: three commits."],
    )


def _connections(count: int) -> str:
    return f"{count} connection{'s' if count > 1 else ''}"


def create_sizes(cluster: Cluster, size: Size) -> Finding:
    """Create of 1, 10, 100 and 1 000 sub_tasks."""
    database = MeasuredDatabase(cluster, "create_sizes")

    def run(sub_tasks: int) -> Sample:
        database.execute("SELECT rvq.reset()")
        return database.run(Load(scripts.create(sub_tasks), 4, seconds=size.seconds(SECONDS)), sub_tasks)

    samples = alternate(size.runs, {f"of {count:,}": partial(run, count) for count in CREATE_SIZES})
    cost = {name: {"us": median(runs, "server CPU us/sub_task")} for name, runs in samples.items()}
    payload = len(scripts.PAYLOAD)
    over = median(samples["of 1,000"], "WAL bytes/sub_task") - payload
    return Finding(
        "Create, by the number of sub_tasks",
        samples,
        ("transactions/s", "sub_tasks/s", "p50 ms", "p99 ms", "server CPU us/sub_task", "WAL bytes/sub_task"),
        [Target("WAL bytes/sub_task over the payload, create of 1,000", over)],
        plots={"cpu": bar_chart("Server CPU of create", "us a sub_task", cost)},
        notes=["4 connections; the tables are emptied before each run."],
    )
