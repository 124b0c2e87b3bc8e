"""A task is stored with all its sub_tasks, or not at all."""

from __future__ import annotations

from datetime import timedelta

import psycopg2
import pytest

from tests.sql.calls import HOST, URL, Calls
from tests.support.database import Database


def test_a_new_task_is_queued_with_all_its_sub_tasks(rvq: Calls) -> None:
    created = rvq.post(3, queue="text", metadata='{"a":1}', webhook=URL)
    assert (created.outcome, created.scheduled) == ("created", False)
    task = rvq.task(created.task_id)
    assert (task.status, task.queue, task.total, task.counts) == ("queued", "text", 3, {"queued": 3})
    assert (task.metadata, task.webhook_url, task.created_at) == ('{"a":1}', URL, created.created_at)
    assert (task.policy, task.required, task.deadline_seconds, task.finished_at) == ("all", None, None, None)


def test_sub_tasks_keep_their_order_payloads_and_attempts(rvq: Calls) -> None:
    task_id = rvq.create(payloads=["10", "9", "8"], max_attempts=[1, 2, 100])
    found = [(s.id - task_id, s.payload, s.max_attempts, s.attempt) for s in rvq.sub_tasks(task_id)]
    assert found == [(1, "10", 1, 0), (2, "9", 2, 0), (3, "8", 100, 0)]


def test_ten_thousand_sub_tasks_fit_in_one_task_and_in_its_ids(rvq: Calls) -> None:
    task_id, neighbour = rvq.create(10_000), rvq.create(1)
    assert rvq.task(task_id).counts == {"queued": 10_000}
    assert rvq.sub_tasks(task_id, after=task_id + 9_999)[0].payload == "9999"
    assert neighbour > task_id + 16_383


def test_a_task_with_not_before_is_scheduled(rvq: Calls, database: Database) -> None:
    moment = database.value("SELECT clock_timestamp()") + timedelta(seconds=60)
    created = rvq.post(2, not_before=moment)
    assert created.scheduled
    assert rvq.task(created.task_id).counts == {"scheduled": 2}
    assert {s.queued_at for s in rvq.sub_tasks(created.task_id)} == {moment}


def test_a_not_before_that_has_passed_queues_at_once(rvq: Calls, database: Database) -> None:
    created = rvq.post(not_before=database.value("SELECT clock_timestamp()") - timedelta(days=400))
    assert not created.scheduled
    assert rvq.claim_one().id == created.task_id + 1


def test_policy_and_deadline_are_kept(rvq: Calls) -> None:
    task = rvq.task(rvq.create(3, policy="at_least", required=2, deadline=1.5))
    assert (task.policy, task.required, task.deadline_seconds) == ("at_least", 2, 1.5)


def test_an_unknown_policy_stores_nothing(rvq: Calls) -> None:
    with pytest.raises(psycopg2.errors.InvalidTextRepresentation):
        rvq.create(policy="most")
    assert rvq.tasks() == []


def test_a_refused_sub_task_leaves_no_trace_of_the_others(rvq: Calls) -> None:
    with pytest.raises(psycopg2.errors.NumericValueOutOfRange):
        rvq.create(payloads=["1", "2", "3"], max_attempts=[5, 5, 2**20])
    assert rvq.tasks() == []
    assert rvq.claim(10) == []


def test_ids_grow_with_each_task(rvq: Calls) -> None:
    ids = [rvq.create() for _ in range(5)]
    assert ids == sorted(set(ids))
    assert all(task_id % 16_384 == 0 for task_id in ids)


def test_the_day_of_an_id_is_the_day_it_was_made(rvq: Calls, database: Database) -> None:
    created = rvq.post()
    day = database.value("SELECT '2024-01-01'::date + rvq.day_of(%s)", (created.task_id,))
    assert day == database.value("SELECT (%s AT TIME ZONE 'UTC')::date", (created.created_at,))


def test_a_delivery_is_due_only_once_the_task_has_ended(rvq: Calls) -> None:
    rvq.create(webhook=URL, host=HOST)
    assert rvq.claim_deliveries() == []


def test_reading_an_unknown_task_gives_no_row(rvq: Calls) -> None:
    assert rvq.rows("SELECT * FROM rvq.read_task(12345)") == []
    assert rvq.sub_tasks(12345) == []
