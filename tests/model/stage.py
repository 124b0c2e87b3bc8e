"""The database that the model is compared with: its clock stands still, and one statement shows all of it."""

from __future__ import annotations

from datetime import datetime

from tests.model.model import FINAL, SECOND, SubTask, Task
from tests.support.database import Database
from tests.support.mutation import Mutation

# All that is compared after every step, in one statement. micros() is made by set_the_stage().
LOOK = """
SELECT json_build_object(
    'tasks', (SELECT json_agg(json_build_array(v.id, v.status, v.queue, v.policy, v.required,
                         micros(v.created_at), micros(v.finished_at), v.total, v.scheduled, v.queued,
                         v.claimed, v.succeeded, v.failed, v.cancelled) ORDER BY v.id)
                FROM rvq.tasks AS t CROSS JOIN LATERAL rvq.read_task(t.id) AS v),
    'sub_tasks', (SELECT json_agg(json_build_array(s.id, s.status, s.attempt, s.result, s.error, s.worker_id,
                             micros(s.queued_at), micros(s.finished_at), micros(o.due_at),
                             micros(o.lease_expires_at), replace(o.lease_token::text, '-', ''),
                             o.max_attempts) ORDER BY s.id)
                    FROM rvq.tasks AS t CROSS JOIN LATERAL rvq.list_sub_tasks(t.id, NULL, 100, 0) AS s
                    LEFT JOIN rvq.open_sub_tasks AS o ON o.id = s.id),
    'events', (SELECT json_agg(json_build_array(e.id, e.status, e.succeeded, e.failed, e.cancelled)
                               ORDER BY e.id) FROM rvq.events AS e),
    'deliveries', (SELECT json_agg(json_build_array(d.id, micros(d.due_at), d.attempt, d.tries, d.lease_token)
                                   ORDER BY d.id) FROM rvq.due_deliveries AS d),
    'stats', rvq.stats()::json)"""


def set_the_stage(database: Database) -> datetime:
    """Stop the clock: from now on it moves by rvq.clock_offset alone. Return where it stands.

    The look is made cheap, for there will be thousands: it is planned once, over the partitions of two days.
    Claim passes over what a transaction locked of late, which the model, with its one client, does not know:
    tests/sql/test_claim.py has tests of that, and here it is switched off.
    """
    Mutation("", "take_new", "age(s.xmax) > 1000", "true").apply(database)
    base: datetime = database.value("SELECT date_trunc('milliseconds', clock_timestamp())")
    database.rows(
        "CREATE OR REPLACE FUNCTION rvq.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$"
        f" SELECT timestamptz '{base.isoformat()}' + make_interval(secs => coalesce(nullif("
        "current_setting('rvq.clock_offset', true), ''), '0')::float8) $$"
    )
    later = """SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relispartition
                  AND substring(relname FROM '[0-9]+$')::integer > rvq.day_at(rvq.clock()) + 1"""
    for partition in database.column(later):
        database.rows(f"DROP TABLE {partition}")
    database.rows("SET plan_cache_mode = 'force_generic_plan'")
    database.rows(
        "CREATE FUNCTION micros(timestamptz) RETURNS bigint LANGUAGE sql STABLE AS"
        f" $$ SELECT (extract(epoch FROM $1 - timestamptz '{base.isoformat()}') * {SECOND})::bigint $$"
    )
    database.rows(f"PREPARE look AS {LOOK}")
    return base


def task_row(task: Task) -> list[object]:
    """The model's task as LOOK shows one."""
    counts = [task.count(status) for status in ("scheduled", "queued", "claimed", *FINAL)]
    told = (task.id, task.status, task.queue, task.policy, task.required, task.created_at, task.finished_at)
    return [*told, len(task.sub_tasks), *counts]


def sub_task_row(s: SubTask) -> list[object]:
    """The model's sub_task as LOOK shows one."""
    worker = (s.worker or s.last_worker) if s.open else s.last_worker
    shown = (s.id, s.status, s.attempt, None if s.open else s.result, s.error, worker, s.queued_at)
    return [*shown, s.finished_at, s.due_at, s.lease_until, s.token, s.limit if s.open else None]
