"""A database to measure in is filled, maintained as often as by the dispatcher, and metered."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial

import psycopg2

from app.db.migrations import migrate
from bench.background import in_background
from bench.core import scripts
from bench.core.pgbench import Load, run_pgbench
from bench.core.sample import Sample
from bench.postgres import connect, server_pid
from bench.procfs import tree_cpu_seconds
from dispatcher.maintenance import STEPS
from rvq.embedded import Cluster

MAINTENANCE = {
    "raise_claim_floors": "SELECT rvq.raise_claim_floors('', 1000)",
    "fold_counters": "SELECT rvq.fold_counters(100000)",
}
AT_ONCE = 100_000
Row = tuple[object, ...]


class MeasuredDatabase:
    """One migrated database of a cluster, under measurement."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        cluster.drop_database(name)
        cluster.create_database(name)
        migrate(cluster.url(name))
        self.execute("SELECT rvq.create_partitions(2)")

    def execute(self, *statements: str) -> list[Row]:
        """Run them in autocommit; return the rows of the last one."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def connect(self) -> psycopg2.extensions.connection:
        return connect(self.cluster.url(self.name, tcp=False))

    def fill_queue(self, sub_tasks: int, per_task: int) -> None:
        """Queue `sub_tasks` in tasks of `per_task` and let the statistics know."""
        for count in _split(max(1, sub_tasks // per_task), max(1, AT_ONCE // per_task)):
            self.execute(scripts.create_many(count, per_task))
        self.execute("SELECT rvq.fold_counters()", "VACUUM ANALYZE")

    def finish_many(self, sub_tasks: int) -> None:
        """Make history: create, claim and complete so many sub_tasks by the functions themselves."""
        clients, batch = 4, 1000
        script = scripts.create(batch, webhook=False) + scripts.drain(batch)
        turns = max(1, sub_tasks // (clients * batch))
        run_pgbench(self.cluster, self.name, Load(script, clients, transactions=turns))
        # Claims side by side take each other's sub_tasks, and one of them may get fewer than it created.
        while self.execute("SELECT 1 FROM rvq.open_sub_tasks LIMIT 1"):
            run_pgbench(self.cluster, self.name, Load(scripts.drain(batch), clients=1, transactions=1))
        self.execute("SELECT rvq.fold_counters()", "VACUUM ANALYZE")

    def run(self, load: Load, sub_tasks: float = 1, *, maintained: bool = True) -> Sample:
        """Run the load and meter the server; `sub_tasks`: how many of them one transaction carries."""
        with self.maintained() if maintained else contextlib.nullcontext():
            before, began = self._read(), time.monotonic()
            run = run_pgbench(self.cluster, self.name, load)
            self._wait_for_clients_to_leave()
            after, ended = self._read(), time.monotonic()
        return Sample(
            transactions=run.transactions,
            sub_tasks=run.transactions * sub_tasks,
            seconds=run.transactions / run.per_second if run.per_second else ended - began,
            latencies=run.latencies,
            statements=run.statements,
            client_cpu_seconds=run.client_cpu_seconds,
            **{name: after[name] - before[name] for name in after},
        )

    def maintained(self) -> contextlib.AbstractContextManager[None]:
        """Do meanwhile what the maintenance loop does with open work."""
        return in_background(*(partial(self._maintain, step) for step in MAINTENANCE))

    def _maintain(self, step: str, done: threading.Event) -> None:
        (every,) = (one.every for one in STEPS if one.name == step)
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            while not done.wait(every):
                cursor.execute(MAINTENANCE[step])

    def _wait_for_clients_to_leave(self) -> None:
        """Wait: a backend hands over its statistics, and its CPU to the postmaster, when it ends."""
        there = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'pgbench'"
        )
        while self.execute(there) != [(0,)]:
            time.sleep(0.01)

    def _read(self) -> dict[str, float]:
        """Return what the server has used so far, by the names of a Sample."""
        (row,) = self.execute(
            "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, (SELECT wal_fpi FROM pg_stat_wal),"
            " (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())"
        )
        cpu_seconds = tree_cpu_seconds(server_pid(self.cluster))
        names = ("server_cpu_seconds", "wal_bytes", "full_pages", "commits")
        return dict(zip(names, (cpu_seconds, *(float(str(value)) for value in row)), strict=True))


def _split(count: int, most: int) -> Iterator[int]:
    while count > 0:
        yield min(count, most)
        count -= most
