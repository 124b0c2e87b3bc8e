"""A day of half a million tasks expires; no claim should wait for it."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time

from bench.background import in_background
from bench.core import scripts
from bench.core.finding import Finding, Size, Target
from bench.core.measured_database import MeasuredDatabase
from bench.core.pgbench import Load, run_pgbench
from bench.core.sample import Sample
from bench.stats import written
from rvq.embedded import Cluster
from rvq.tables import markdown_table

TASKS, AT_ONCE, CLIENTS = 500_000, 500, 4
LIMIT, LOAD_CLIENTS, LOAD_RATE, LOAD_SECONDS = 10, 4, 100, 6
WATCH_SECONDS = 0.005
# A step that found a lock taken is no measurement.
TRIES = 20
# That day's clock, which its sessions go by.
PAST = {"rvq.clock_offset": str(-5 * 86_400)}
STEP = "SELECT rvq.drop_expired_partitions(1)"
OPEN = "SELECT EXISTS (SELECT FROM rvq.open_tasks) OR EXISTS (SELECT FROM rvq.due_deliveries)"
LEFT = "SELECT count(*) FROM rvq.list_expired_partitions(1)"
WAITING = """
SELECT count(*) FROM pg_stat_activity
 WHERE application_name = 'pgbench' AND wait_event_type = 'Lock' AND query LIKE '%claim_sub_tasks%'"""


def retention(cluster: Cluster, size: Size) -> Finding:
    """Drop a day of 500 000 tasks with a million sub_tasks, all delivered, while others work."""
    tasks = size.count(TASKS, least=AT_ONCE)
    database = MeasuredDatabase(cluster, "retention")
    _fill_day(database, tasks)
    load = Load(scripts.steady(LIMIT), LOAD_CLIENTS, seconds=LOAD_SECONDS, rate=LOAD_RATE, turns=True)
    without = database.run(load, LIMIT / 2)
    undone = [_seconds_undone(database) for _ in range(size.runs)]
    alone = statistics.median(undone)
    beside, steps, waits = _beside(database, load)
    left = database.execute("SELECT sum(tasks_succeeded + deliveries_delivered) FROM rvq.current_counters")
    # The day's tasks are taken out of the counters: only what the load did is still counted.
    finished = database.execute("SELECT count(*) FROM rvq.events")
    assert left == finished, f"{left} are counted, {finished} are there"
    return Finding(
        f"Retention of a day of {tasks:,} tasks of 2, each with its webhook delivered",
        {"without": [without], "beside retention": [beside]},
        ("transactions/s", "p50 ms", "p99 ms"),
        [
            Target("seconds to count and drop the tasks of the day, alone", alone, most=1.0),
            Target("seconds of all steps, beside the load", sum(steps)),
            Target("claims seen waiting for a lock", waits, most=0),
        ],
        tables={"Steps, beside the load": _table(steps)},
        notes=[
            f"Alone: the median of {len(undone)} that were rolled back. Then for good, while {LOAD_CLIENTS}"
            " connections create, claim and complete on a schedule. Lock waits are looked for every"
            f" {WATCH_SECONDS * 1e3:g} ms."
        ],
    )


def _fill_day(database: MeasuredDatabase, tasks: int) -> None:
    """Let the day come and go: the functions create, claim, complete and deliver everything."""
    database.execute(
        *(f"SET {name} = '{value}'" for name, value in PAST.items()), "SELECT rvq.create_partitions(0)"
    )
    finish = scripts.complete() + scripts.deliver(AT_ONCE)
    script = scripts.create(2, tasks=AT_ONCE) + scripts.claim(2 * AT_ONCE) + finish
    clients = min(CLIENTS, tasks // AT_ONCE)
    turns = tasks // AT_ONCE // clients
    run_pgbench(database.cluster, database.name, Load(script, clients, transactions=turns, options=PAST))
    rest = Load(scripts.claim(AT_ONCE) + finish, 1, transactions=1, options=PAST)
    while database.execute(OPEN) != [(False,)]:
        run_pgbench(database.cluster, database.name, rest)
    database.execute("SELECT rvq.fold_counters()", "VACUUM ANALYZE", "CHECKPOINT")


def _seconds_undone(database: MeasuredDatabase) -> float:
    """Return the seconds of a day's first step, which drops its tasks and takes them out of the counters."""
    for _ in range(TRIES):
        took, did = _step(database, undo=True)
        if did:
            return took
    raise AssertionError("the day can't be dropped")


def _step(database: MeasuredDatabase, *, undo: bool) -> tuple[float, bool]:
    """Return its seconds, and whether it did anything: it gives way to any lock, autovacuum's too."""
    with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
        connection.autocommit = not undo
        began = time.monotonic()
        cursor.execute(STEP)
        return time.monotonic() - began, cursor.fetchall() != [(0,)]


def _beside(database: MeasuredDatabase, load: Load) -> tuple[Sample, list[float], int]:
    """Return the load's sample, the seconds of each step, and how many claims waited for a lock."""
    steps: list[float] = []
    waits: list[int] = []

    def expire(_done: threading.Event) -> None:
        time.sleep(load.seconds / 4)
        while database.execute(LEFT) != [(0,)]:
            steps.append(_step(database, undo=False)[0])

    def watch(done: threading.Event) -> None:
        with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
            while not done.wait(WATCH_SECONDS):
                cursor.execute(WAITING)
                waits.append(cursor.fetchall()[0][0])

    with in_background(watch), in_background(expire):
        sample = database.run(load, LIMIT / 2)
    return sample, steps, sum(waits)


def _table(steps: list[float]) -> str:
    return markdown_table(
        ("step", "seconds"), [(str(number), written(took)) for number, took in enumerate(steps, 1)]
    )
