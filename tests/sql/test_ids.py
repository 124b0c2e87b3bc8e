"""Any 64-bit number may be asked for as an id: it is unknown, never an error, never another thing's id."""

from __future__ import annotations

from functools import partial

import pytest

from app.db import Row
from tests.sql.calls import NEWEST, URL, Calls, Lease, Report, other_token
from tests.support.concurrency import wait_until

STRANGERS = [0, 1, -1, 5, 2**47, 2**62, 2**63 - 1, 2**63 - 16_384, -(2**63), -(2**63) + 1]


@pytest.fixture
def task_id(rvq: Calls) -> int:
    """An ended task with a webhook, and an open one."""
    rvq.create(3)
    ended = rvq.create(1, queue="q", webhook=URL)
    rvq.succeed(*rvq.claim(1, queues=["q"]))
    return ended


def events_after(rvq: Calls, event_id: int) -> list[Row]:
    return rvq.rows("SELECT id FROM rvq.list_events('0', %s, 10)", (event_id,))


def strangers(task_id: int) -> list[int]:
    return [*STRANGERS, task_id + 1, task_id + 2, task_id + 16_383, task_id + 16_384, task_id - 1]


def test_strange_task_ids_are_unknown(rvq: Calls, task_id: int) -> None:
    for stranger in strangers(task_id):
        assert rvq.rows("SELECT * FROM rvq.read_task(%s)", (stranger,)) == []
        assert rvq.sub_tasks(stranger) == []
        assert rvq.cancel(stranger) == rvq.retry(stranger) == "unknown"
        assert rvq.value("SELECT rvq.redeliver_task(%s)", (stranger,)) == "unknown"
        assert rvq.rows("SELECT * FROM rvq.list_deliveries_of_task(%s)", (stranger,)) == []


def test_strange_sub_task_ids_are_unknown(rvq: Calls, task_id: int) -> None:
    ids = [*STRANGERS, task_id, task_id + 2, task_id + 16_383]
    leases = [Lease(i, "", 1, 1, "", other_token(), None) for i in ids]  # type: ignore[arg-type]
    assert rvq.complete(*(Report(lease.id, lease.token) for lease in leases)) == ["unknown"] * len(ids)
    assert rvq.complete(*(Report(i, other_token(), False, None, "{}") for i in ids)) == ["unknown"] * len(ids)
    assert rvq.heartbeat(*leases) == ["unknown"] * len(ids)
    assert rvq.release(*leases) == ["unknown"] * len(ids)


def test_strange_delivery_ids_are_unknown(rvq: Calls, task_id: int) -> None:
    assert rvq.redeliver(*STRANGERS, task_id + 1) == ["unknown"] * (len(STRANGERS) + 1)
    assert rvq.redeliver(*STRANGERS, task_id) == ["unknown"] * len(STRANGERS) + ["redelivered"]
    (delivery,) = rvq.claim_deliveries()
    wrong = [delivery._replace(id=i) for i in STRANGERS]
    assert rvq.settle(*wrong) == []
    assert rvq.release_deliveries(*wrong) == 0


def test_strange_cursors_list_nothing_or_everything(rvq: Calls, task_id: int) -> None:
    everything = {t.id for t in rvq.tasks()}
    for stranger in STRANGERS:
        for status in (None, "queued", "running", "succeeded", "failed", "cancelled"):
            assert {t.id for t in rvq.tasks(status, before=stranger)} <= everything
        assert rvq.sub_tasks(task_id, after=stranger) in ([], rvq.sub_tasks(task_id))
        sql = "SELECT id FROM rvq.list_deliveries(%s, NULL, NULL, 10, %s)"
        for status in (None, "pending", "delivered", "dead"):
            assert rvq.rows(sql, (status, stranger)) in ([], rvq.rows(sql, (status, NEWEST)))
        wait_until(partial(events_after, rvq, stranger), "the event is in the feed", 60)
