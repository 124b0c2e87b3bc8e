"""Each start of a server is noticed before anything is written: no id or place in the feed comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.ids import cell_of
from tests.sql.calls import Calls
from tests.support.concurrency import wait_until
from tests.support.database import Database

MILLION, PER_SECOND = 2**20, 2330
# The day's number of a task: what is between the cell and the gate.
NUMBER = "SELECT (%s::bigint >> 15) & 268435455"
SECONDS = "SELECT mod(extract(epoch FROM rvq.clock())::bigint, 86400)"
RUNS_TODAY = "SELECT count(*) FROM rvq.server_runs WHERE rvq.day_at(began_at) = rvq.day_at(rvq.clock())"
LOST = [(None, None)]

Another = Callable[[], Calls]
Cursor = tuple[int, int, int]
START = (0, 0, 0)


@pytest.fixture
def restart(database: Database, another: Another) -> Iterator[Another]:
    """Gives a session that finds the last run to be of a server before this one."""

    def forget_the_start() -> Calls:
        database.rows("UPDATE rvq.server_runs SET started_at = started_at - interval '1 year'")
        return another()

    database.rows("DELETE FROM rvq.server_runs")
    database.rows("SELECT rvq.know_server()")
    yield forget_the_start
    database.rows("DELETE FROM rvq.server_runs")


def runs(calls: Calls) -> list[str]:
    return [row[0] for row in calls.rows("SELECT how FROM rvq.server_runs ORDER BY first_xid")]


def number(calls: Calls, task_id: int) -> int:
    return int(calls.value(NUMBER, (task_id,)))


def end_one(calls: Calls) -> int:
    """Create a task and end it; return its id."""
    task_id = calls.create()
    calls.succeed(calls.claim_one())
    return task_id


def feed(calls: Calls, cursor: Cursor = START) -> list[Any]:
    return calls.rows("SELECT run, xid::text::bigint, id FROM rvq.read_feed(%s, %s, %s, 100)", cursor)


def await_feed(calls: Calls, count: int, cursor: Cursor = START) -> Cursor:
    """Wait until that many events are behind the cursor; return the cursor behind them."""
    wait_until(lambda: len(feed(calls, cursor)) == count, f"{count} events", 60)
    run, xid, event = feed(calls, cursor)[-1]
    return run, xid, event


def is_refused(calls: Calls, cursor: Cursor) -> bool:
    return [row[1:] for row in feed(calls, cursor)] == LOST


def test_ids_are_of_cell_0_and_begin_where_the_time_of_day_says(rvq: Calls) -> None:
    rvq.create()
    rvq.rows("DELETE FROM rvq.id_days")
    seconds, runs_today = rvq.value(SECONDS), rvq.value(RUNS_TODAY)
    task_id = rvq.create()
    assert cell_of(task_id) == cell_of(task_id + 1) == 0
    assert number(rvq, task_id) >= (seconds - 1) * PER_SECOND + runs_today * MILLION
    assert number(rvq, rvq.create()) == number(rvq, task_id) + 1


def test_a_new_run_jumps_over_whatever_its_day_may_have_had(rvq: Calls, restart: Another) -> None:
    before = rvq.create()
    session = restart()
    assert number(session, session.create()) >= number(rvq, before) + MILLION


def test_ids_begin_above_what_is_stored_however_fast_they_went(rvq: Calls) -> None:
    rvq.create()
    rvq.rows("UPDATE rvq.id_days SET base = base - 20000000")
    fast = rvq.create()
    rvq.rows("DELETE FROM rvq.id_days")
    assert number(rvq, rvq.create()) == number(rvq, fast) + 1


def test_ids_of_days_that_meet_do_not_repeat_when_the_clock_goes_back_and_forth(
    rvq: Calls, database: Database
) -> None:
    made = []
    for days in (0, 1, 0, 1, 0):
        database.move_clock(days * 86_400)
        rvq.rows(f"SET rvq.clock_offset = {days * 86_400}")
        database.rows("SELECT rvq.create_partitions(1)")
        made += [rvq.create(), rvq.create()]
    assert len({task_id >> 48 for task_id in made}) == 2
    assert len(set(made)) == 10


def test_a_run_is_recorded_once_by_several_sessions(rvq: Calls, restart: Another, another: Another) -> None:
    for session in (restart(), another()):
        session.create()
    assert runs(rvq) == ["installed", "started"]


def test_a_session_whose_recording_was_rolled_back_asks_again(rvq: Calls, restart: Another) -> None:
    session = restart()
    session.connection.autocommit = False
    session.create()
    session.connection.rollback()
    assert runs(rvq) == ["installed"]
    session.create()
    session.connection.commit()
    assert runs(rvq) == ["installed", "started"]


def test_a_read_of_the_feed_records_the_run_too(rvq: Calls, restart: Another) -> None:
    assert feed(restart()) == []
    assert runs(rvq) == ["installed", "started"]


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ("system_identifier = 1", "restored"),
        ("database_id = 1", "restored"),
        ("table_id = 1", "restored"),
        ("timeline = 7", "promoted"),
        ("how = how", "started"),
    ],
)
def test_what_a_run_differs_in_says_how_it_began(rvq: Calls, restart: Another, change: str, how: str) -> None:
    session = restart()
    rvq.rows(f"UPDATE rvq.server_runs SET {change}")
    session.create()
    assert runs(rvq) == ["installed", how]
    assert bool(session.connection.notices) is (how != "started")


def test_a_cursor_of_before_goes_on_and_one_of_what_was_lost_is_refused(rvq: Calls, restart: Another) -> None:
    end_one(rvq)
    run, xid, event = await_feed(rvq, 1)
    session = restart()
    second = end_one(session)
    assert await_feed(session, 1, (run, xid, event))[2] == second
    first_xid = rvq.value("SELECT max(first_xid) FROM rvq.server_runs")
    assert feed(session, (run, first_xid - 1, 0))[0][2] == second
    assert is_refused(session, (run, first_xid, 0))
    assert is_refused(session, (run + 1, xid, event))


def test_a_cursor_of_the_future_is_refused(rvq: Calls) -> None:
    end_one(rvq)
    run, _, _ = await_feed(rvq, 1)
    assert is_refused(rvq, (run, 2**62, 0))
    assert is_refused(rvq, (0, 2**62, 0))


def test_events_of_a_server_with_higher_xids_come_first_and_the_new_ones_behind_them(
    rvq: Calls, restart: Another
) -> None:
    old = end_one(rvq)
    run, _, event = await_feed(rvq, 1)
    rvq.rows("UPDATE rvq.events SET xid = '5000000000'")
    session = restart()
    new = [end_one(session), end_one(session)]
    await_feed(session, 3)
    assert [row[2] for row in feed(session)] == [old, *new]
    assert runs(rvq) == ["installed", "restored"]
    assert [row[2] for row in feed(session, (run, 5_000_000_000, event))] == new
    assert is_refused(session, (run, 5_000_000_001, 0))


def test_an_event_that_is_not_committed_holds_back_those_after_it_with_other_xids_too(
    rvq: Calls, restart: Another, another: Another
) -> None:
    end_one(rvq)
    await_feed(rvq, 1)
    rvq.rows("UPDATE rvq.events SET xid = '5000000000'")
    session = restart()
    before = end_one(session)
    await_feed(session, 2)
    slow = another()
    slow.connection.autocommit = False
    first = end_one(slow)
    second = end_one(session)
    assert len(feed(session)) == 2
    slow.connection.commit()
    await_feed(session, 4)
    assert [row[2] for row in feed(session)][1:] == [before, first, second]


def test_a_task_that_was_open_at_the_start_of_the_server_ends_under_an_id_of_its_own(
    rvq: Calls, restart: Another
) -> None:
    task_id = rvq.create()
    lease = rvq.claim_one()
    session = restart()
    later = session.create(queue="later")
    assert session.fail_for_good(lease) == ["failed"]
    ((event,),) = rvq.rows("SELECT id FROM rvq.events")
    assert 0 < event - task_id < 1000
    assert rvq.task(task_id).status == "failed"
    session.retry(task_id)
    session.succeed(session.claim_one())
    session.succeed(session.claim_one(queues=["later"]))
    ends = [row[0] for row in rvq.rows("SELECT id FROM rvq.events ORDER BY id")]
    assert ends[0] == event < ends[1] < task_id + 16_384
    assert ends[2] == later


@pytest.mark.parametrize("days", [0, 30, 125, 4000])
def test_the_ordinal_of_an_old_task_stays_in_its_place_whatever_its_age(rvq: Calls, days: int) -> None:
    rvq.rows("SELECT set_config('rvq.run_began', '99999999999', false)")
    ordinal = "SELECT rvq.event_ordinal(3, now() - make_interval(days => %s, hours => 1), now())"
    assert 300 <= rvq.value(ordinal, (days,)) <= 16_000
    rvq.rows("SELECT rvq.know_server()")
    young = "SELECT rvq.event_ordinal(3, now() + interval '1 day', now())"
    assert rvq.value(young) == 3
