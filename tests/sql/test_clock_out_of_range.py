"""A clock that shows a day which ids can't say: no task can be created, and everything else goes on."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg2
import pytest

from app.ids import FIRST_DAY, LAST_DAY
from tests.sql.calls import URL, Calls, Lease
from tests.support.database import Database

pytestmark = pytest.mark.usefixtures("usual_days")

SENTENCE = f"ids can only say days from {FIRST_DAY} to {LAST_DAY}"
STRANGE = ["1970-01-01", "2023-12-31", str(LAST_DAY.replace(day=LAST_DAY.day + 1)), "2150-06-01"]


def show(database: Database, day: str) -> None:
    moment = datetime.fromisoformat(day).replace(tzinfo=UTC, hour=12)
    database.move_clock((moment - datetime.now(UTC)).total_seconds())


def refused(rvq: Calls, sql: str) -> str:
    with pytest.raises(psycopg2.Error) as raised:
        rvq.rows(sql)
    assert raised.value.pgcode == "RQ001"
    return str(raised.value.diag.message_primary)


@pytest.fixture
def lease(rvq: Calls) -> Lease:
    """Of a task with three sub_tasks, made while the clock was right; another task waits for a webhook."""
    rvq.create(queue="sent", webhook=URL)
    rvq.succeed(rvq.claim_one(queues=["sent"]))
    rvq.create(3, key="k", body_hash=b"x")
    return rvq.claim_one()


@pytest.mark.parametrize("day", STRANGE)
def test_a_create_is_refused_with_a_sentence(rvq: Calls, database: Database, day: str) -> None:
    show(database, day)
    with pytest.raises(psycopg2.Error) as raised:
        rvq.create()
    assert raised.value.pgcode == "RQ001"
    assert raised.value.diag.message_primary == f"the database's clock shows {day}, and {SENTENCE}"
    assert raised.value.diag.message_primary == refused(rvq, "SELECT rvq.create_partitions(7)")


@pytest.mark.parametrize("day", STRANGE)
def test_everything_else_goes_on(rvq: Calls, database: Database, lease: Lease, day: str) -> None:
    show(database, day)
    assert rvq.heartbeat(lease) == ["extended"]
    assert rvq.succeed(lease) == ["succeeded"]
    failed, released = rvq.claim(2)
    assert rvq.fail_for_good(failed) == ["failed"]
    assert rvq.release(released) == ["released"]
    task_id = lease.id & -16384
    assert rvq.cancel(task_id) == "cancelled"
    assert rvq.task(task_id).counts == {"succeeded": 1, "failed": 1, "cancelled": 1}
    for step in (
        "fold_counters()",
        "raise_claim_floors('', 1000)",
        "rescue_below_floors(1000)",
        "follow_clock(0, 1000)",
        "expire_leases(1000)",
        "promote_due(1000)",
        "end_overdue_tasks(100)",
        "expire_delivery_leases(1000)",
        "check_admission()",
        "sweep_stranded_tasks(0, 1000)",
        "end_abandoned_tasks(120, 0, 1000)",
        "list_open_days(30)",
        "stats()",
    ):
        rvq.rows(f"SELECT rvq.{step}")
    (delivery,) = rvq.claim_deliveries()
    assert rvq.put_off(delivery) == [delivery.id]
    late = rvq.rows("SELECT step FROM rvq.list_due_steps(30) WHERE is_behind")
    assert ("create_partitions",) in late


def test_the_first_and_the_last_day_are_days(rvq: Calls, database: Database) -> None:
    tasks = []
    for day in (FIRST_DAY, LAST_DAY):
        show(database, str(day))
        rvq.rows("SELECT rvq.create_partitions(7)")
        tasks.append(rvq.create(webhook=URL))
        rvq.succeed(rvq.claim_one())
        rvq.settle(*rvq.claim_deliveries())
    assert [task.id for task in rvq.tasks()] == tasks[::-1]
    assert [rvq.task(task_id).status for task_id in tasks] == ["succeeded", "succeeded"]
    assert all(0 < task_id < 1 << 63 for task_id in tasks)
