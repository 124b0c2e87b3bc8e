"""An event's id means one end of a task, also when another end was lost with a part of the history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sql.calls import Calls
from tests.support.database import Database

Another = Callable[[], Calls]


def end_and_lose(calls: Calls, task_id: int) -> int:
    """Cancel a task and roll that back; return the id that the event had."""
    calls.connection.autocommit = False
    calls.cancel(task_id)
    event = calls.value("SELECT e.id FROM rvq.events AS e")
    calls.connection.rollback()
    calls.connection.autocommit = True
    return int(event)


def test_a_task_that_was_open_at_the_start_of_the_server_ends_under_an_id_of_its_own(
    rvq: Calls, restart: Another
) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    session = restart()
    later = session.create(queue="later")
    assert session.fail_for_good(lease) == ["failed"]
    ((event,),) = rvq.rows("SELECT id FROM rvq.events")
    assert 0 < event - task_id < 16_384
    assert rvq.task(task_id).status == "failed"
    session.retry(task_id)
    session.succeed(session.claim_one())
    session.succeed(session.claim_one(queues=["later"]))
    ends = [row[0] for row in rvq.rows("SELECT id FROM rvq.events ORDER BY id")]
    assert ends[0] == event < ends[1] < task_id + 16_384
    assert ends[2] == later


def test_a_task_of_before_ends_under_another_id_after_each_loss(
    rvq: Calls, database: Database, restart: Another
) -> None:
    """A day old, so that an id by its age would be the same for a while."""
    task_id = rvq.create()
    database.move_clock(86_400)
    ids = [task_id]
    for start in range(5):
        database.move_clock(86_400 + 5 * start)
        ids.append(end_and_lose(restart(), task_id))
    assert len(set(ids)) == 6
    assert {number & -16_384 for number in ids} == {task_id}


def test_a_task_that_is_reopened_in_the_run_counts_its_ends_one_by_one(rvq: Calls, restart: Another) -> None:
    rvq.create()
    session = restart()
    session.fail_for_good(session.claim_one())
    for _ in range(3):
        session.retry(rvq.value("SELECT id FROM rvq.tasks"))
        session.fail_for_good(session.claim_one())
    ends = [row[0] for row in rvq.rows("SELECT id FROM rvq.events ORDER BY id")]
    assert ends == list(range(ends[0], ends[0] + 4))


@pytest.mark.parametrize("run", [0, 1, 5_000, 16_300, 16_382, 16_383])
def test_an_ordinal_stays_in_its_place_whatever_the_run_is(rvq: Calls, run: int) -> None:
    ordinal = "SELECT rvq.event_ordinal(%s, now() - interval '1 day')"
    for began in (1_800_000_000, 1_800_004_093):
        rvq.rows("SELECT set_config('rvq.run_began', %s, false)", (str(began),))
        last = rvq.value(ordinal, (run,))
        assert run <= last <= min(16_383, run + 8 + (16_384 - run) // 4)
    rvq.rows("SELECT rvq.know_server()")
    assert rvq.value("SELECT rvq.event_ordinal(%s, now() + interval '1 day')", (run,)) == run


def test_a_task_that_was_reopened_in_a_lost_part_ends_under_another_id_when_it_is_reopened_again(
    rvq: Calls, restart: Another
) -> None:
    task_id = rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    rvq.connection.autocommit = False
    rvq.retry(task_id)
    rvq.succeed(rvq.claim_one())
    lost = rvq.value("SELECT max(id) FROM rvq.events")
    rvq.connection.rollback()
    rvq.connection.autocommit = True
    session = restart()
    assert session.retry(task_id) == "retried"
    session.succeed(session.claim_one())
    assert session.value("SELECT max(id) FROM rvq.events") > lost


def test_a_task_of_a_moment_ago_is_of_before_though_the_new_clock_is_behind(
    rvq: Calls, database: Database, restart: Another
) -> None:
    task_id = rvq.create()
    lost = end_and_lose(rvq, task_id)
    database.move_clock(-600)
    assert end_and_lose(restart(), task_id) != lost
