"""A transaction left open for minutes pins vacuum's horizon, and claims may cost more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from bench.core import scripts
from bench.core.finding import Finding, Size, Target, compared
from bench.core.measured_database import MeasuredDatabase
from bench.core.pgbench import Load
from bench.core.sample import Sample, Variants
from bench.core.scenarios.flat import FLAT, SHOWN
from bench.svg import Point, line_chart
from rvq.embedded import Cluster

CLIENTS, LIMIT = 4, 10
BACKLOG = 1_000
PINNED_SECONDS, RECOVERY_SECONDS, SLICE_SECONDS = 300, 60, 5
BEFORE, AT_THE_END, AFTER = "before", "after 5 minutes pinned", "a minute after its end"


def horizon(cluster: Cluster, size: Size) -> Finding:
    """Measure load without a pause, in slices: before, while a snapshot is held, and after it is let go."""
    database = MeasuredDatabase(cluster, "horizon")
    database.fill_queue(BACKLOG, LIMIT)
    take = partial(_slice, database, size.seconds(SLICE_SECONDS))
    pinned_slices = max(size.runs, round(PINNED_SECONDS * size.factor / SLICE_SECONDS))
    recovery_slices = max(size.runs, round(RECOVERY_SECONDS * size.factor / SLICE_SECONDS))
    with database.maintained():
        take()  # fills caches
        before = [take() for _ in range(size.runs)]
        with _pinned(database):
            pinned = [take() for _ in range(pinned_slices)]
        after = [take() for _ in range(recovery_slices + size.runs)]
    samples = {BEFORE: before, AT_THE_END: pinned[-size.runs :], AFTER: after[-size.runs :]}
    return Finding(
        "Claim and complete while a transaction pins the horizon",
        samples,
        SHOWN,
        _targets(samples),
        plots={"timeline": _timeline(before, pinned, after)},
        notes=[
            f"{CLIENTS} connections without a pause, like `history`; slices of "
            f"{size.seconds(SLICE_SECONDS):g} s, {len(pinned)} of them pinned. The claim floor is raised"
            " twice a second, as by maintenance."
        ],
    )


def _slice(database: MeasuredDatabase, seconds: float) -> Sample:
    load = Load(scripts.steady(LIMIT), CLIENTS, seconds=seconds, turns=True)
    return database.run(load, LIMIT / 2, maintained=False)


@contextlib.contextmanager
def _pinned(database: MeasuredDatabase) -> Iterator[None]:
    """Hold a snapshot and a transaction id."""
    with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = 0")
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT pg_current_xact_id()")
        yield


def _targets(samples: Variants) -> list[Target]:
    return [
        *compared(samples, AT_THE_END, BEFORE, {**FLAT, "p50 ms": 2.0, "p99 ms": 2.0}),
        *compared(samples, AFTER, BEFORE, FLAT),
    ]


def _timeline(before: list[Sample], pinned: list[Sample], after: list[Sample]) -> str:
    lines: dict[str, list[Point]] = {"p50 ms": [], "p99 ms": []}
    clock, bounds = 0.0, []
    for phase in (before, pinned, after):
        for sample in phase:
            clock += sample.seconds
            for figure, points in lines.items():
                points.append((clock, sample.figure(figure)))
        bounds.append(clock)
    bands = {"horizon pinned": (bounds[0], bounds[1])}
    return line_chart("Claim and complete of 10", "seconds of load", "ms", lines, bands=bands)
