"""Each start of a server is noticed before anything is written, and no id comes twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.ids import cell_of
from tests.sql.calls import Calls
from tests.support.database import Database

PER_SECOND = 3000
# The day's number of a task: what is between the cell and the gate.
NUMBER = "SELECT (%s::bigint >> 15) & 268435455"
SECONDS = "SELECT mod(extract(epoch FROM rvq.clock())::bigint, 86400)"

Another = Callable[[], Calls]


def runs(calls: Calls) -> list[str]:
    return [row[0] for row in calls.rows("SELECT how FROM rvq.server_runs ORDER BY first_xid")]


def number(calls: Calls, task_id: int) -> int:
    return int(calls.value(NUMBER, (task_id,)))


def test_ids_are_of_cell_0_and_begin_where_the_time_of_day_says(rvq: Calls) -> None:
    rvq.create()
    rvq.rows("DELETE FROM rvq.id_days")
    seconds = rvq.value(SECONDS)
    task_id = rvq.create()
    assert cell_of(task_id) == cell_of(task_id + 1) == 0
    assert number(rvq, task_id) >= (seconds - 1) * PER_SECOND
    assert number(rvq, rvq.create()) == number(rvq, task_id) + 1


def test_ids_jump_over_those_of_a_lost_part_however_often_the_server_was_started_in_it(
    rvq: Calls, database: Database, restart: Another
) -> None:
    noon = 43_200 - rvq.value(SECONDS)
    lost = []
    for start in range(6):
        database.move_clock(noon + 10 * start)
        session = restart()
        lost += [session.create() for _ in range(5)]
    assert lost == sorted(set(lost))
    database.rows("DELETE FROM rvq.server_runs WHERE how <> 'installed'")
    database.rows("TRUNCATE rvq.tasks, rvq.open_tasks, rvq.sub_tasks, rvq.open_sub_tasks, rvq.counter_deltas")
    database.rows("SELECT setval('rvq.task_sequence', 1)")
    database.move_clock(noon + 60)
    session = restart()
    assert number(session, session.create()) >= number(rvq, lost[-1]) + 9 * PER_SECOND


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
    assert restart().rows("SELECT * FROM rvq.read_feed(0, 0, 0, 100)") == []
    assert runs(rvq) == ["installed", "started"]


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ("system_identifier = 1", "restored"),
        ("database_id = 1", "restored"),
        ("table_id = 1", "restored"),
        ("first_xid = first_xid + 4000000000", "restored"),
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


def test_the_table_of_runs_made_anew_is_noticed_by_a_session_that_knew_the_run(
    rvq: Calls, restart: Another
) -> None:
    rvq.create()
    rvq.rows("CREATE TEMPORARY TABLE kept AS SELECT * FROM rvq.server_runs")
    rvq.rows("TRUNCATE rvq.server_runs")
    rvq.rows("INSERT INTO rvq.server_runs SELECT * FROM kept")
    rvq.create()
    assert runs(rvq) == ["installed", "restored"]
