"""Statistics are exact, in the contract's shape, whatever was folded."""

from __future__ import annotations

from datetime import timedelta

from tests.sql.calls import URL, Calls
from tests.support.database import Database

NOTHING = {"scheduled": 0, "queued": 0, "claimed": 0, "succeeded": 0, "failed": 0, "cancelled": 0}


def test_an_empty_rvq_has_zeros_everywhere(rvq: Calls) -> None:
    assert rvq.stats() == {
        "tasks": {"queued": 0, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0},
        "sub_tasks": NOTHING,
        "queues": {},
        "oldest_queued_seconds": 0,
        "deliveries": {"pending": 0, "delivered": 0, "dead": 0},
    }


def test_everything_is_counted_by_status_and_queue(rvq: Calls, database: Database) -> None:
    moment = database.value("SELECT clock_timestamp()") + timedelta(hours=1)
    rvq.create(2, queue="a", not_before=moment)
    rvq.create(3, queue="a")
    rvq.succeed(*rvq.claim(1, queues=["a"]))
    rvq.claim(1, queues=["a"])
    rvq.create(1, queue="b", webhook=URL)
    rvq.fail_for_good(*rvq.claim(1, queues=["b"]))
    rvq.cancel(rvq.create(2, queue="c", webhook=URL))
    rvq.settle(*rvq.claim_deliveries(1))
    for _ in range(2):
        stats = rvq.stats()
        assert stats["tasks"] == {"queued": 1, "running": 1, "succeeded": 0, "failed": 1, "cancelled": 1}
        total = {"scheduled": 2, "queued": 1, "claimed": 1, "succeeded": 1, "failed": 1, "cancelled": 2}
        assert stats["sub_tasks"] == total
        assert stats["queues"] == {
            "a": {**NOTHING, "scheduled": 2, "queued": 1, "claimed": 1, "succeeded": 1},
            "b": {**NOTHING, "failed": 1},
            "c": {**NOTHING, "cancelled": 2},
        }
        assert stats["deliveries"] == {"pending": 1, "delivered": 1, "dead": 0}
        rvq.fold()


def test_counters_that_were_emptied_are_never_shown_below_zero(rvq: Calls, database: Database) -> None:
    rvq.create(3, webhook=URL)
    rvq.create(2, queue="b")
    rvq.succeed(*rvq.claim(1))
    rvq.fold()
    database.rows("TRUNCATE rvq.counters")
    rvq.succeed(*rvq.claim(2))
    rvq.settle(*rvq.claim_deliveries())
    stats = rvq.stats()
    assert stats["sub_tasks"] == {**NOTHING, "succeeded": 2}
    assert stats["queues"] == {"default": {**NOTHING, "succeeded": 2}}
    assert stats["tasks"] == {"queued": 0, "running": 0, "succeeded": 1, "failed": 0, "cancelled": 0}
    assert stats["deliveries"] == {"pending": 0, "delivered": 1, "dead": 0}
    assert database.row("SELECT * FROM rvq.read_queue('default')") == (False, 0, 0, 0)
    assert ("default", "queued", -2, 0) in database.rows("SELECT * FROM rvq.audit()")
    database.rows("SELECT rvq.repair_counters()")
    assert rvq.stats()["sub_tasks"]["queued"] == 2


def running(rvq: Calls) -> tuple[int, int]:
    """(queued, running) of the statistics, which must agree with each task's own status."""
    tasks = rvq.stats()["tasks"]
    statuses = [task.status for task in rvq.tasks()]
    assert (statuses.count("queued"), statuses.count("running")) == (tasks["queued"], tasks["running"])
    return tasks["queued"], tasks["running"]


def test_a_task_runs_from_its_first_claim_to_its_end(rvq: Calls) -> None:
    rvq.create(2)
    assert running(rvq) == (1, 0)
    one, two = rvq.claim(2)
    assert running(rvq) == (0, 1)
    rvq.release(one, two)
    assert running(rvq) == (1, 0)
    one = rvq.claim_one()
    rvq.fail(one, retry_after=500)
    assert running(rvq) == (0, 1)
    rvq.succeed(*rvq.claim(1))
    assert running(rvq) == (0, 1)
    rvq.cancel(rvq.tasks()[0].id)
    assert running(rvq) == (0, 0)


def test_a_reopened_task_runs(rvq: Calls) -> None:
    some, none = rvq.create(2), rvq.create(2)
    one, two, three, four = rvq.claim(4)
    rvq.succeed(one)
    rvq.fail_for_good(two, three, four)
    for task_id in (some, none):
        rvq.retry(task_id)
    assert running(rvq) == (0, 2)
    rvq.claim(2)
    assert running(rvq) == (0, 2)
    rvq.cancel(some)
    rvq.cancel(none)
    assert running(rvq) == (0, 0)


def test_the_age_is_that_of_the_oldest_queued_in_any_queue(rvq: Calls, database: Database) -> None:
    rvq.create(queue="b")
    database.move_clock(50)
    rvq.create(2, queue="a")
    database.move_clock(80)
    assert 80 <= rvq.stats()["oldest_queued_seconds"] < 100
    rvq.claim(1, queues=["b"])
    assert 30 <= rvq.stats()["oldest_queued_seconds"] < 50
    rvq.fail(rvq.claim_one(queues=["a"]), retry_after=0)
    rvq.claim(1, queues=["a"])
    rvq.fold()
    rvq.raise_floors()
    assert 30 <= rvq.stats()["oldest_queued_seconds"] < 50
    rvq.claim(1, queues=["a"])
    assert rvq.stats()["oldest_queued_seconds"] == 0


def test_what_is_scheduled_is_not_old(rvq: Calls, database: Database) -> None:
    rvq.create(not_before=database.value("SELECT clock_timestamp()") + timedelta(hours=1))
    assert rvq.stats()["oldest_queued_seconds"] == 0
