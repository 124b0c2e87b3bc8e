"""Maintenance: each step once, with what it is for; one dispatcher at a time; no step stops another."""

from __future__ import annotations

import logging

import pytest

from app.db import DatabaseUnavailable, Row
from dispatcher.loops import Loop
from dispatcher.maintenance import STEPS, Step, StepRunner
from dispatcher.metrics import Metrics
from dispatcher.store import Store
from tests.dispatcher.rig import Tasks, environment, running
from tests.dispatcher.steps import attempt, stepping
from tests.support.concurrency import wait_until
from tests.support.database import Database

URL = "http://one.test/hook"


LOCK_KEYS = {
    "promote_due": 0,
    "expire_leases": 1,
    "end_overdue_tasks": 2,
    "expire_delivery_leases": 3,
    "fold_counters": 4,
    "raise_claim_floors": 5,
    "rescue_below_floors": 6,
    "check_admission": 7,
    "create_partitions": 8,
    "drop_expired_partitions": 20,
    "sweep_stranded_tasks": 21,
    "end_abandoned_tasks": 22,
    "follow_clock": 24,
    "give_up_deliveries": 23,
}


def test_a_lock_key_stays_what_it_was_in_the_releases_before() -> None:
    """Two releases run side by side: a key that moved would let a step run twice, or stop another."""
    keys = {step.name: step.lock_key for step in STEPS if step.lock_key is not None}
    assert keys == LOCK_KEYS
    assert len(set(keys.values())) == len(keys)
    assert [step.name for step in STEPS if step.lock_key is None] == ["report", "audit"]


def test_all_steps_work_on_an_empty_database(database: Database) -> None:
    with stepping(database.url) as steps:
        assert [step.name for step in STEPS if steps.runner(step.name).step() == 0.0] == []


def test_an_expired_lease_ends_its_attempt_with_no_traffic(database: Database) -> None:
    task_id = Tasks(database.url).create(2)
    database.rows("SELECT * FROM rvq.claim_sub_tasks('{w}', '{2}', 1, ARRAY['default'])")
    database.move_clock(10)
    with stepping(database.url) as steps:
        assert steps.maintain("expire_leases") == 2
    assert database.value("SELECT status FROM rvq.read_task(%s)", (task_id,)) == "failed"


def test_an_overdue_task_fails(database: Database) -> None:
    task_id = Tasks(database.url).create(deadline_seconds=5)
    database.move_clock(10)
    with stepping(database.url) as steps:
        assert steps.maintain("end_overdue_tasks") == 1
    assert database.value("SELECT status FROM rvq.read_task(%s)", (task_id,)) == "failed"


def test_a_delivery_whose_dispatcher_vanished_is_due_again_and_the_ledger_says_unknown(
    database: Database,
) -> None:
    tasks = Tasks(database.url)
    (number,) = tasks.finish(URL)
    with stepping(database.url) as steps:
        assert len(steps.claim()) == 1
    database.move_clock(31)
    with stepping(database.url) as steps:
        assert steps.maintain("expire_delivery_leases") == 1
    assert tasks.ledger(number) == [(1, "unknown", "pending")]


def test_partitions_are_made_a_week_ahead(database: Database) -> None:
    database.move_clock(86400 * 3)
    with stepping(database.url) as steps:
        made = steps.maintain("create_partitions")
    assert made is not None
    ahead = "SELECT to_regclass('rvq.tasks_' || rvq.day_at(rvq.clock() + interval '7 days'))"
    assert database.value(ahead) is not None


def test_abandoned_tasks_fail_three_months_after_retention_and_the_walk_goes_on_at_once(
    database: Database,
) -> None:
    task_id = Tasks(database.url).create(2)
    with stepping(database.url) as steps:
        assert steps.maintain("end_abandoned_tasks") == 0
    database.move_clock(121 * 86_400)
    with stepping(database.url) as steps:
        steps.maintain("report")
        assert steps.metrics.registry.get_sample_value("rvq_open_days") == 1
        database.rows("SELECT rvq.create_partitions(0)")
        runner = steps.runner("end_abandoned_tasks")
        assert runner.step() == 0.0
        assert runner.step() > 0
    assert database.value("SELECT status FROM rvq.read_task(%s)", (task_id,)) == "failed"
    (day,) = database.column("SELECT rvq.day_at(rvq.clock())")
    for parent in ("tasks", "sub_tasks", "outcomes", "events", "delivery_attempts"):
        database.rows(f"DROP TABLE rvq.{parent}_{day}")
    database.rows("SELECT rvq.write_readers()")


def test_while_another_dispatcher_does_a_step_it_is_passed_over(database: Database) -> None:
    other = database.connect(autocommit=False)
    with stepping(database.url) as steps:
        for name, key in LOCK_KEYS.items():
            database.rows("SELECT pg_advisory_xact_lock(4, %s)", (key,), on=other)
            assert steps.maintain(name) is None
        other.rollback()
        assert all(steps.maintain(name) is not None for name in LOCK_KEYS)


def test_what_another_dispatcher_does_is_not_even_begun(database: Database) -> None:
    Tasks(database.url).create(2)
    database.rows("DELETE FROM rvq.open_sub_tasks")
    other = database.connect(autocommit=False)
    database.rows("SELECT pg_advisory_xact_lock(4, %s)", (LOCK_KEYS["sweep_stranded_tasks"],), on=other)
    with stepping(database.url) as steps:
        assert steps.maintain("sweep_stranded_tasks") is None
    assert database.value("SELECT count(*) FROM rvq.events") == 0
    other.rollback()
    database.rows("SELECT rvq.reset()")


class Scripted(Store):
    """A store whose steps end in these ways, one after the other."""

    def __init__(self, *results: int | Exception | None) -> None:
        self._results = list(results)

    def run_step(self, sql: str, lock_key: int | None, *, is_slow: bool) -> list[Row] | None:
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        return None if result is None else [(result,)]


def test_full_batches_are_followed_at_once_and_others_after_a_while() -> None:
    runner = StepRunner(Step("some", 99, 10.0, 5, ""), Scripted(5, 4, None), Metrics(), 30)
    assert runner.step() == 0.0
    assert 9 <= runner.step() <= 11
    assert 9 <= runner.step() <= 11


def test_a_step_that_is_not_for_the_start_waits_first() -> None:
    runner = StepRunner(Step("some", 99, 10.0, 1, "", at_start=False), Scripted(1), Metrics(), 30)
    assert 5 <= runner.step() <= 10
    assert runner.step() == 0.0


def test_a_step_that_fails_is_counted_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    metrics, store = Metrics(), Scripted(DatabaseUnavailable("away"), ValueError("a fault"), 7)
    loop = Loop("some", StepRunner(Step("some", 99, 10.0, 0, ""), store, metrics, 30).step)
    with caplog.at_level(logging.INFO):
        assert loop.run_once() < 1
        assert loop.run_once() < 1
        assert loop.run_once() >= 9
    value = metrics.registry.get_sample_value
    assert value("rvq_maintenance_failures_total", {"step": "some"}) == 2
    assert value("rvq_maintenance_done_total", {"step": "some"}) == 7
    assert "works again" in caplog.text


def test_the_sweep_walks_all_open_tasks_and_starts_again(database: Database) -> None:
    ids = [Tasks(database.url).create(2) for _ in range(3)]
    with stepping(database.url) as steps:
        sweep = steps.runner("sweep_stranded_tasks", batch=2)
        reached = []
        for _ in range(4):
            assert sweep.step() > 0
            reached.append(sweep._after)
        assert reached == [ids[1], ids[2], 0, ids[1]]
        assert steps.metrics.registry.get_sample_value("rvq_stranded_tasks_total") == 0


def test_a_stranded_task_is_ended_and_counted(database: Database) -> None:
    task_id = Tasks(database.url).create(2)
    database.rows("DELETE FROM rvq.open_sub_tasks")
    with stepping(database.url) as steps:
        assert steps.maintain("sweep_stranded_tasks") == 1
        assert steps.metrics.registry.get_sample_value("rvq_stranded_tasks_total") == 1
    assert database.value("SELECT count(*) FROM rvq.events WHERE id = %s", (task_id,)) == 1
    database.rows("SELECT rvq.reset()")


def test_drift_is_exported_and_gone_when_it_is_repaired(database: Database) -> None:
    database.rows("INSERT INTO rvq.counter_deltas (queue, succeeded) VALUES ('default', 3)")
    labels = {"queue": "default", "counter": "succeeded"}
    with stepping(database.url) as steps:
        assert steps.maintain("audit") == 1
        assert steps.metrics.registry.get_sample_value("rvq_counter_drift", labels) == 3
        database.rows("SELECT rvq.repair_counters()")
        assert steps.maintain("audit") == 1
        assert steps.metrics.registry.get_sample_value("rvq_counter_drift", labels) is None


def test_the_report_shows_waiting_hosts_and_forgets_them_when_they_are_served(database: Database) -> None:
    Tasks(database.url).finish(URL)
    labels = {"host": "one.test"}
    with stepping(database.url) as steps:
        steps.maintain("report")
        value = steps.metrics.registry.get_sample_value
        assert value("rvq_delivery_oldest_due_seconds", labels) is not None
        assert (value("rvq_table_bytes", {"table": "due_deliveries"}) or 0) > 0
        (delivery,) = steps.claim()
        steps.end(delivery, attempt())
        steps.settler.step()
        steps.maintain("report")
        assert value("rvq_delivery_oldest_due_seconds", labels) is None


def test_a_dispatcher_promotes_expires_folds_and_ends_what_is_overdue_by_itself(database: Database) -> None:
    tasks = Tasks(database.url)
    tasks.create(not_before_seconds=1)
    overdue = tasks.create(deadline_seconds=1)
    with running(environment(database.url)):
        promoted = "SELECT count(*) FROM rvq.open_sub_tasks WHERE status = 'queued' AND requeued"
        wait_until(lambda: database.value(promoted) == 1, "the scheduled one is queued")
        status = "SELECT status FROM rvq.read_task(%s)"
        wait_until(lambda: database.value(status, (overdue,)) == "failed", "the overdue one has failed")
        wait_until(
            lambda: database.value("SELECT count(*) FROM rvq.counter_deltas") == 0, "counters are folded"
        )
