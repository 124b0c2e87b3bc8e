"""A database to measure in is filled, maintained as often as by the dispatcher, and metered."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg2

from app.db.migrations import migrate
from bench.core import scripts
from bench.core.pgbench import Load, PgbenchRun, run_pgbench
from bench.core.sample import Sample
from bench.procfs import tree_cpu_seconds
from dispatcher.maintenance import STEPS
from rvq.embedded import Cluster

MAINTENANCE = ("raise_claim_floors", "fold_counters")
AT_ONCE = 100_000
Row = tuple[object, ...]


@dataclass(frozen=True)
class _Reading:
    cpu_seconds: float
    wal_bytes: int
    full_pages: int
    commits: int
    time: float


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
        connection: psycopg2.extensions.connection = psycopg2.connect(
            self.cluster.url(self.name, tcp=False), application_name="bench"
        )
        connection.autocommit = True
        return connection

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
            before = self._read()
            run = run_pgbench(self.cluster, self.name, load)
            self._wait_for_clients_to_leave()
            after = self._read()
        return _sample(run, before, after, sub_tasks)

    @contextlib.contextmanager
    def maintained(self) -> Iterator[None]:
        """Do meanwhile what the maintenance loop does with open work."""
        done = threading.Event()
        threads = [threading.Thread(target=self._maintain, args=(step, done)) for step in MAINTENANCE]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()

    def _maintain(self, step: str, done: threading.Event) -> None:
        (every,) = (one.every for one in STEPS if one.name == step)
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            while not done.wait(every):
                cursor.execute(f"SELECT rvq.{step}()")

    def _wait_for_clients_to_leave(self) -> None:
        """Wait: a backend hands over its statistics, and its CPU to the postmaster, when it ends."""
        there = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'pgbench'"
        )
        while self.execute(there) != [(0,)]:
            time.sleep(0.01)

    def _read(self) -> _Reading:
        ((wal, full_pages, commits),) = self.execute(
            "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, (SELECT wal_fpi FROM pg_stat_wal),"
            " (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())"
        )
        server = self.cluster.running
        assert server, "the server is gone"
        return _Reading(
            tree_cpu_seconds(server.pid),
            int(str(wal)),
            int(str(full_pages)),
            int(str(commits)),
            time.monotonic(),
        )


def _sample(run: PgbenchRun, before: _Reading, after: _Reading, sub_tasks: float) -> Sample:
    return Sample(
        transactions=run.transactions,
        sub_tasks=run.transactions * sub_tasks,
        seconds=run.transactions / run.per_second if run.per_second else after.time - before.time,
        latencies=run.latencies,
        statements=run.statements,
        server_cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        client_cpu_seconds=run.client_cpu_seconds,
        wal_bytes=after.wal_bytes - before.wal_bytes,
        full_pages=after.full_pages - before.full_pages,
        commits=after.commits - before.commits,
    )


def _split(count: int, most: int) -> Iterator[int]:
    while count > 0:
        yield min(count, most)
        count -= most
