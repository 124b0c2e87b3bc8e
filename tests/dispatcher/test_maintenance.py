"""Maintenance: each step once, with what it is for; one dispatcher at a time; no step stops another."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from app.db import DatabaseUnavailable
from dispatcher.loops import Loop
from dispatcher.maintenance import FREQUENT, MaintenanceStep, Sweep, audit, maintenance_steps, report
from dispatcher.metrics import Metrics
from tests.dispatcher.rig import Tasks, environment, running
from tests.dispatcher.steps import attempt, stepping
from tests.support.concurrency import wait_until
from tests.support.database import Database

URL = "http://one.test/hook"


def test_all_steps_work_on_an_empty_database(database: Database) -> None:
    with stepping(database.url) as steps:
        made = maintenance_steps(steps.store, steps.metrics, 30)
        assert [step.name for step in made if step.step() == 0.0] == []
    assert {step.name for step in made} > set(FREQUENT)


def test_an_expired_lease_ends_its_attempt_with_no_traffic(database: Database) -> None:
    task_id = Tasks(database.url).create(2)
    database.rows("SELECT * FROM rvq.claim_sub_tasks('{w}', '{2}', 1, ARRAY['default'])")
    database.move_clock(10)
    with stepping(database.url) as steps:
        assert steps.store.run_step("expire_leases") == 2
    assert database.value("SELECT status FROM rvq.read_task(%s)", (task_id,)) == "failed"


def test_an_overdue_task_fails(database: Database) -> None:
    task_id = Tasks(database.url).create(deadline_seconds=5)
    database.move_clock(10)
    with stepping(database.url) as steps:
        assert steps.store.run_step("end_overdue_tasks") == 1
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
        assert steps.store.run_step("expire_delivery_leases") == 1
    assert tasks.ledger(number) == [(1, "unknown", "pending")]


def test_partitions_are_made_a_week_ahead(database: Database) -> None:
    database.move_clock(86400 * 3)
    with stepping(database.url) as steps:
        made = steps.store.run_step("create_partitions")
    assert made is not None
    ahead = "SELECT to_regclass('rvq.tasks_' || rvq.day_at(rvq.clock() + interval '7 days'))"
    assert database.value(ahead) is not None


def test_while_another_dispatcher_does_a_step_it_is_passed_over(database: Database) -> None:
    other = database.connect(autocommit=False)
    with stepping(database.url) as steps:
        for key, name in enumerate(FREQUENT):
            database.rows("SELECT pg_advisory_xact_lock(4, %s)", (key,), on=other)
            assert steps.store.run_step(name) is None
        database.rows("SELECT pg_advisory_xact_lock(4, 20), pg_advisory_xact_lock(4, 21)", on=other)
        assert steps.store.drop_expired_partitions(30) is None
        assert steps.store.sweep_stranded_tasks(0, 10) == (None, 0)
        other.rollback()
        assert steps.store.run_step("fold_counters") is not None


def test_full_batches_are_followed_at_once_and_others_after_a_while() -> None:
    step = MaintenanceStep("some", 10.0, lambda: 5, Metrics(), full=5)
    assert step.step() == 0.0
    step.full = 6
    assert 9 <= step.step() <= 11


def test_a_step_that_fails_is_counted_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: Iterator[int | Exception] = iter([DatabaseUnavailable("away"), ValueError("a fault"), 7])

    def work() -> int:
        result = next(calls)
        if isinstance(result, Exception):
            raise result
        return result

    metrics = Metrics()
    loop = Loop("some", MaintenanceStep("some", 10.0, work, metrics).step)
    with caplog.at_level(logging.INFO):
        assert loop.run_once() < 1
        assert loop.run_once() < 1
        assert loop.run_once() >= 9
    value = metrics.registry.get_sample_value
    assert value("rvq_maintenance_failures_total", {"step": "some"}) == 2
    assert value("rvq_maintenance_done_total", {"step": "some"}) == 7
    assert "works again" in caplog.text


def test_the_sweep_walks_all_open_tasks_and_starts_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.maintenance.SWEEP_BATCH", 2)
    for _ in range(3):
        Tasks(database.url).create(2)
    with stepping(database.url) as steps:
        sweep = Sweep(steps.store, steps.metrics)
        assert [sweep() for _ in range(4)] == [0, 0, 0, 0]
        assert steps.metrics.registry.get_sample_value("rvq_stranded_tasks_total") == 0


def test_a_stranded_task_is_ended_and_counted(database: Database) -> None:
    task_id = Tasks(database.url).create(2)
    database.rows("DELETE FROM rvq.open_sub_tasks")
    with stepping(database.url) as steps:
        assert Sweep(steps.store, steps.metrics)() == 1
        assert steps.metrics.registry.get_sample_value("rvq_stranded_tasks_total") == 1
    assert database.value("SELECT count(*) FROM rvq.events WHERE id = %s", (task_id,)) == 1
    database.rows("SELECT rvq.reset()")


def test_drift_is_exported_and_gone_when_it_is_repaired(database: Database) -> None:
    database.rows("INSERT INTO rvq.counter_deltas (queue, succeeded) VALUES ('default', 3)")
    labels = {"queue": "default", "counter": "succeeded"}
    with stepping(database.url) as steps:
        assert audit(steps.store, steps.metrics) == 1
        assert steps.metrics.registry.get_sample_value("rvq_counter_drift", labels) == 3
        database.rows("SELECT rvq.repair_counters()")
        assert audit(steps.store, steps.metrics) == 0
        assert steps.metrics.registry.get_sample_value("rvq_counter_drift", labels) is None


def test_the_report_shows_waiting_hosts_and_forgets_them_when_they_are_served(database: Database) -> None:
    Tasks(database.url).finish(URL)
    labels = {"host": "one.test"}
    with stepping(database.url) as steps:
        report(steps.store, steps.metrics)
        value = steps.metrics.registry.get_sample_value
        assert value("rvq_delivery_oldest_due_seconds", labels) is not None
        assert (value("rvq_table_bytes", {"table": "due_deliveries"}) or 0) > 0
        (delivery,) = steps.claim()
        steps.end(delivery, attempt())
        steps.settling.step()
        report(steps.store, steps.metrics)
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
