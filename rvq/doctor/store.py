"""What the doctor asks RVQ's own tables and functions; it changes nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from app.db import connect
from app.db.errors import StatementTimeout
from app.db.migrations import check_history, newer_release, schema_is_current
from app.ids import FIRST_DAY, LAST_DAY, task_of
from rvq.doctor.catalog import Catalog
from rvq.doctor.figures import (
    Admission,
    BrokenHost,
    DueStep,
    OpenDay,
    ServerRun,
    Skew,
    StoredUrl,
    WaitingQueue,
)

NAME = "rvq-doctor"
AUDIT_TIMEOUT_MS = 60_000

SETTINGS = "SELECT name, setting, unit FROM pg_settings WHERE name = ANY (%s)"
WRITABLE = "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'"
CLOCK = """
SELECT extract(epoch FROM clock_timestamp())::float8,
       extract(epoch FROM rvq.clock() - clock_timestamp())::float8,
       (rvq.clock() AT TIME ZONE 'UTC')::date::text, rvq.day_at(rvq.clock()) BETWEEN 0 AND %s"""
# What ALTER DATABASE and ALTER ROLE bring along, for this database and this role.
BROUGHT_ALONG = """
SELECT unnest(s.setconfig) FROM pg_db_role_setting AS s
 WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
   AND s.setrole IN (0, (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = session_user))"""
OTHERS = """
SELECT count(*) FROM pg_stat_activity AS a
 WHERE a.backend_type = 'client backend' AND a.application_name NOT LIKE 'rvq-%%'"""
DAYS_AHEAD = """
SELECT count(*) FROM generate_series(rvq.day_at(rvq.clock()), rvq.day_at(rvq.clock()) + %s) AS d
 WHERE to_regclass(format('rvq.%%I', 'sub_tasks_' || d)) IS NOT NULL
   AND to_regclass(format('rvq.%%I', 'outcomes_' || d)) IS NOT NULL"""
HORIZON = """
SELECT extract(epoch FROM h.age)::float8, h.holder
  FROM rvq.list_horizon_holders() AS h ORDER BY h.age DESC"""
OPEN_DAYS = """
SELECT '2024-01-01'::date + o.day, coalesce(o.open_task, o.due_delivery), o.open_task IS NOT NULL
  FROM rvq.list_open_days(%s) AS o"""
SET_ASIDE = """
SELECT s.kind, s.reason, count(*), min(s.id)
  FROM rvq.set_aside AS s GROUP BY s.kind, s.reason ORDER BY 1, 2"""
ADMISSION = """
SELECT a.refusal, extract(epoch FROM rvq.clock() - nullif(a.checked_at, '-infinity'))::float8,
       extract(epoch FROM a.max_transaction_age)::float8, a.max_dead_tuples
  FROM rvq.admission AS a"""
DEAD_TUPLES = """
SELECT coalesce(sum(t.n_dead_tup), 0)::bigint FROM pg_stat_user_tables AS t
 WHERE t.schemaname = 'rvq'
   AND t.relname IN ('open_tasks', 'open_sub_tasks', 'due_deliveries', 'counter_deltas')"""
OVERDUE_DELIVERY = """
SELECT max(extract(epoch FROM rvq.clock() - h.oldest_due_at))::float8 FROM rvq.list_due_hosts() AS h
  LEFT JOIN rvq.webhook_hosts AS w ON w.host = h.host
 WHERE coalesce(w.broken_until, '-infinity') <= rvq.clock()"""
DRIFT = "SELECT a.queue, a.counter, a.counted, a.truth FROM rvq.audit() AS a WHERE a.counted <> a.truth"
STORED_URLS = """
SELECT u.url, sum(u.tasks)::bigint, sum(u.deliveries)::bigint FROM (
    SELECT t.webhook_url AS url, 1 AS tasks, 0 AS deliveries
      FROM rvq.open_tasks AS t WHERE t.webhook_url IS NOT NULL
    UNION ALL
    SELECT d.url, 0, 1 FROM rvq.due_deliveries AS d) AS u
 GROUP BY u.url ORDER BY u.url"""

DUE_STEPS = "SELECT s.step, s.due, s.seconds, s.is_behind FROM rvq.list_due_steps(%s) AS s"
QUEUES = """
SELECT c.queue, coalesce(q.paused, false), c.queued, c.claimed,
       coalesce(extract(epoch FROM rvq.clock() - rvq.oldest_queued_at(c.queue)), 0)::float8
  FROM rvq.read_counters() AS c LEFT JOIN rvq.queues AS q ON q.queue = c.queue
 WHERE c.queued > 0 ORDER BY 5 DESC, 1"""
BROKEN_HOSTS = """
SELECT h.host, h.failures FROM rvq.webhook_hosts AS h
 WHERE h.broken_until > rvq.clock() - interval '1 minute' ORDER BY h.failures DESC, h.host"""
DEAD_DELIVERIES = "SELECT coalesce(sum(c.deliveries_dead), 0)::bigint FROM rvq.read_counters() AS c"
RUNS = """
SELECT r.how, to_char(r.began_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'),
       extract(epoch FROM rvq.clock() - r.began_at)::float8, EXISTS (SELECT FROM rvq.this_run())
  FROM rvq.server_runs AS r ORDER BY r.first_xid DESC LIMIT 1"""


class Store(Catalog):
    """Reads over one connection. Methods raise a DatabaseError when the database goes away."""

    @property
    def version(self) -> int:
        """Return the major version."""
        return self._connection.server_version // 10000

    def is_writable(self) -> bool:
        return bool(self._row(WRITABLE)[0])

    def schema_is_current(self) -> bool:
        """Raises MigrationError when it is too new for this code, or has another history."""
        check_history(self._connection)
        return schema_is_current(self._connection)

    def newer_release(self) -> int | None:
        """Return the release that has migrated the database, if it is newer than this code."""
        return newer_release(self._connection)

    def settings(self, names: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        """Return value and unit of each of PostgreSQL's settings that it knows."""
        return {name: (value, unit) for name, value, unit in self._rows(SETTINGS, (list(names),))}

    def brought_along(self) -> dict[str, str]:
        """Return what the database or the role sets for every session of ours, by name."""
        found = (row[0].partition("=") for row in self._rows(BROUGHT_ALONG))
        return {name.lower(): value for name, _, value in found}

    def skew(self) -> Skew:
        before = time.time()
        theirs, moved, day, has_ids = self._row(CLOCK, ((LAST_DAY - FIRST_DAY).days,))
        after = time.time()
        return Skew(theirs - (before + after) / 2, (after - before) / 2, moved, day, has_ids)

    def last_run(self) -> ServerRun | None:
        rows = self._rows(RUNS)
        return ServerRun(*rows[0]) if rows else None

    def connections_of_others(self) -> int:
        return int(self._row(OTHERS)[0])

    def days_with_partitions(self, ahead: int) -> int:
        """Count the days that have partitions: today and that many after it."""
        return int(self._row(DAYS_AHEAD, (ahead,))[0])

    def horizon_holders(self) -> list[tuple[float, str]]:
        """Return the age in seconds and the name of all that holds vacuum back, the oldest first."""
        return [(age, holder) for age, holder in self._rows(HORIZON)]

    def open_days(self, retention_days: int) -> list[OpenDay]:
        rows = self._rows(OPEN_DAYS, (retention_days,))
        return [OpenDay(day, task_of(first), is_open) for day, first, is_open in rows]

    def due_steps(self, retention_days: int) -> list[DueStep]:
        return [DueStep(*row) for row in self._rows(DUE_STEPS, (retention_days,))]

    def set_aside(self) -> list[tuple[str, str, int, int]]:
        """Return kind, reason, how many, and the first id of what was found damaged."""
        return [(kind, reason, n, first) for kind, reason, n, first in self._rows(SET_ASIDE)]

    def admission(self) -> Admission | None:
        rows = self._rows(ADMISSION)
        return Admission(*rows[0]) if rows else None

    def dead_tuples(self) -> int:
        return int(self._row(DEAD_TUPLES)[0])

    def overdue_delivery(self) -> float | None:
        """Return for how many seconds the oldest delivery to a host that is not broken has been due."""
        value = self._row(OVERDUE_DELIVERY)[0]
        return None if value is None else float(value)

    def queues_with_waiting_work(self) -> list[WaitingQueue]:
        """Return the queues that have queued sub_tasks, the one whose oldest waits longest first."""
        return [WaitingQueue(*row) for row in self._rows(QUEUES)]

    def broken_hosts(self) -> list[BrokenHost]:
        return [BrokenHost(*row) for row in self._rows(BROKEN_HOSTS)]

    def dead_deliveries(self) -> int:
        return int(self._row(DEAD_DELIVERIES)[0])

    def drift(self) -> list[tuple[str, str, int, int]] | None:
        """Return (queue, counter, counted, truth) of what differs from the truth; None: too much to count."""
        try:
            self._rows(f"SET statement_timeout = {AUDIT_TIMEOUT_MS}")
            return [(queue, counter, counted, truth) for queue, counter, counted, truth in self._rows(DRIFT)]
        except StatementTimeout:
            return None

    def stored_urls(self) -> list[StoredUrl]:
        """Return every address that something is still to be sent to: open tasks, and due deliveries."""
        return [StoredUrl(*row) for row in self._rows(STORED_URLS)]


@contextlib.contextmanager
def open_store(database_url: str) -> Iterator[Store]:
    """Yield a store on a connection of its own. Raises DatabaseUnavailable."""
    with contextlib.closing(connect(database_url, NAME)) as connection:
        yield Store(connection)
