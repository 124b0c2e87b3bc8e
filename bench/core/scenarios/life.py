"""The whole life of a task is measured beside the least that any implementation has to write."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.core import baselines, scripts
from bench.core.finding import Finding, Size, Target, compared
from bench.core.measured_database import MeasuredDatabase
from bench.core.pgbench import Load, run_pgbench
from bench.core.sample import Sample, Variants, median
from bench.stats import alternate, written
from bench.svg import bar_chart
from rvq.embedded import Cluster
from rvq.tables import markdown_table

SECONDS = 10
RVQ, PLAIN, BARE, NO_WAIT = "RVQ", "plain rows", "a bare queue", "RVQ, asynchronous commit"
WRITTEN = ("WAL bytes/sub_task", "full pages/sub_task", "commits/sub_task")
SHOWN = ("transactions/s", "sub_tasks/s", "p50 ms", "p99 ms", "server CPU us/sub_task", *WRITTEN)


def single_life(cluster: Cluster, size: Size) -> Finding:
    """Create 2, claim 2, complete 2 and the event, at 16 connections."""
    return _life(cluster, size, "single", sub_tasks=2, clients=16, rate=("transactions/s", 2_000))


def batch_life(cluster: Cluster, size: Size) -> Finding:
    """Create, claim and complete batches of 100, at 4 connections."""
    return _life(cluster, size, "batch", sub_tasks=100, clients=4, rate=("sub_tasks/s", 30_000))


def _life(
    cluster: Cluster, size: Size, name: str, *, sub_tasks: int, clients: int, rate: tuple[str, float]
) -> Finding:
    database = MeasuredDatabase(cluster, f"life_{name}")
    ours = Load(scripts.life(sub_tasks), clients, seconds=size.seconds(SECONDS))
    samples = _measure(database, size, ours, sub_tasks)
    question = f"A task's whole life: create, claim, complete {sub_tasks}, event; {clients} connections"
    return Finding(
        question,
        samples,
        SHOWN,
        _targets(samples, rate),
        plots={"rate": _plot(question, samples, rate[0])},
        tables={
            "Mean latency of each statement, RVQ": _statements(samples[RVQ]),
            "Where the time goes: functions by their own time": _functions(database, ours),
        },
        notes=[
            "`plain rows`: the same rows, one INSERT or UPDATE by primary key a row, in three transactions"
            " a task; no counters, fence, fan-in or order of claims.",
            "`a bare queue` (bench/core/bare.sql): order of claims, fence, fan-in and an outbox row, in two"
            " tables; none of the rest.",
            "All durable but the variant with asynchronous commit: it tells what waiting for the disk costs.",
        ],
    )


def _measure(database: MeasuredDatabase, size: Size, ours: Load, sub_tasks: int) -> Variants:
    def run(prepare: str, load: Load, *, maintained: bool) -> Sample:
        database.execute(prepare)
        return database.run(load, sub_tasks, maintained=maintained)

    ours_alone = partial(run, "SELECT rvq.reset()", maintained=True)
    beside = partial(run, maintained=False)
    no_wait = replace(ours, options={"synchronous_commit": "off"})
    plain = replace(ours, script=baselines.plain_life(sub_tasks))
    bare = replace(ours, script=baselines.bare_life(sub_tasks))
    return alternate(
        size.runs,
        {
            RVQ: partial(ours_alone, ours),
            PLAIN: partial(beside, baselines.PLAIN_ROWS, plain),
            BARE: partial(beside, baselines.BARE_QUEUE, bare),
            NO_WAIT: partial(ours_alone, no_wait),
        },
    )


def _targets(samples: Variants, rate: tuple[str, float]) -> list[Target]:
    figure, least = rate
    over = median(samples[RVQ], "WAL bytes/sub_task") - len(scripts.PAYLOAD)
    ratios = (figure, "server CPU us/sub_task", "WAL bytes/sub_task")
    return [
        Target(figure, median(samples[RVQ], figure), least=least),
        Target("WAL bytes/sub_task over the payload", over, most=1200),
        Target("commits/sub_task", median(samples[RVQ], "commits/sub_task")),
        *compared(samples, RVQ, PLAIN, dict.fromkeys(ratios)),
        *compared(samples, RVQ, BARE, dict.fromkeys(ratios)),
        *compared(samples, NO_WAIT, RVQ, {figure: None}),
    ]


def _plot(question: str, samples: Variants, figure: str) -> str:
    rates = {name: {figure: median(runs, figure)} for name, runs in samples.items()}
    return bar_chart(question, figure, rates)


def _statements(runs: list[Sample]) -> str:
    middle = sorted(runs, key=lambda run: run.figure("p50 ms"))[len(runs) // 2]
    return markdown_table(
        ("statement", "mean ms"), [(f"`{text}`", written(ms)) for text, ms in middle.statements]
    )


def _functions(database: MeasuredDatabase, load: Load) -> str:
    """Run once more with PostgreSQL's function timing, which costs time: it is not among the samples."""
    database.execute("SELECT rvq.reset()", "SELECT pg_stat_reset()")
    traced = replace(load, options={"track_functions": "all"})
    run = run_pgbench(database.cluster, database.name, traced)
    rows = database.execute(
        "SELECT funcname, calls, total_time, self_time FROM pg_stat_user_functions"
        " WHERE schemaname = 'rvq' ORDER BY self_time DESC LIMIT 12"
    )
    per_task = [
        (f"`{name}`", *(written(float(str(value)) / run.transactions) for value in values))
        for name, *values in rows
    ]
    return markdown_table(("function", "calls/task", "ms/task with callees", "own ms/task"), per_task)
