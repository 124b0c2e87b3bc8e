"""Dead tuples over a long run at a fixed rate are bounded, or they grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

from bench.background import in_background
from bench.core import scripts
from bench.core.finding import Finding, Size, Target
from bench.core.measured_database import MeasuredDatabase
from bench.core.pgbench import Load
from bench.stats import percentile, written
from bench.svg import Point, line_chart
from rvq.embedded import Cluster
from rvq.tables import markdown_table

CLIENTS, RATE, SECONDS = 8, 400, 1_200
# A delivery row leaves when it is sent, and nobody sends here: it is not looked at.
TABLES = ("open_tasks", "open_sub_tasks", "counter_deltas", "counters", "queues")
LOOK = """
SELECT relname, n_dead_tup, pg_relation_size(relid) FROM pg_stat_user_tables
 WHERE schemaname = 'rvq' AND relname = ANY (ARRAY['{}'])"""

Look = tuple[float, str, int, int]  # seconds, table, dead tuples, bytes


def bloat(cluster: Cluster, size: Size) -> Finding:
    """Watch dead tuples of the tables that are updated: whole tasks at 400 a second for twenty minutes."""
    database = MeasuredDatabase(cluster, "bloat")
    load = Load(scripts.life(2), CLIENTS, seconds=size.seconds(SECONDS), rate=RATE)
    looks: list[Look] = []
    with in_background(partial(_watch, database, load.seconds / 200, looks)):
        sample = database.run(load, 2)
    first, second = _worst(looks, load.seconds, (0.0, 0.5)), _worst(looks, load.seconds, (0.5, 1.0))
    return Finding(
        f"Dead tuples at {RATE} tasks of 2 a second",
        {"fixed rate": [sample]},
        ("transactions/s", "p50 ms", "p99 ms", "server CPU us/sub_task", "WAL bytes/sub_task"),
        [Target("most dead tuples, second half of the run to the first", second / max(1, first), most=1.5)],
        plots={"dead": _plot(looks, "dead tuples", 2), "bytes": _plot(looks, "bytes", 3)},
        tables={"Dead tuples by table": _summary(looks)},
        notes=[f"{load.seconds:g} s on a schedule; latencies count from it. One run: a course, not a ratio."],
    )


def _watch(database: MeasuredDatabase, pause: float, looks: list[Look], done: threading.Event) -> None:
    began = time.monotonic()
    while not done.wait(min(max(pause, 0.1), 5.0)):
        rows = database.execute(LOOK.format("','".join(TABLES)))
        looks += [
            (time.monotonic() - began, str(name), int(str(dead)), int(str(size))) for name, dead, size in rows
        ]


def _worst(looks: Sequence[Look], seconds: float, part: tuple[float, float]) -> int:
    """Return the most dead tuples of any table in a part (shares) of the run."""
    low, high = part[0] * seconds, part[1] * seconds
    return max((dead for at, _, dead, _ in looks if low <= at <= high), default=0)


def _plot(looks: Sequence[Look], what: str, column: int) -> str:
    series: dict[str, list[Point]] = {
        name: [(look[0], float(str(look[column]))) for look in looks if look[1] == name] for name in TABLES
    }
    return line_chart(f"{what} at {RATE} tasks a second".capitalize(), "seconds", what, series)


def _summary(looks: Sequence[Look]) -> str:
    rows = []
    for name in TABLES:
        dead = sorted(look[2] for look in looks if look[1] == name)
        size = max((look[3] for look in looks if look[1] == name), default=0)
        rows.append((f"`{name}`", *(written(percentile(dead, share)) for share in (0.5, 1.0)), written(size)))
    return markdown_table(("table", "median dead", "most dead", "largest bytes"), rows)
