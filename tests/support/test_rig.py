"""The test rig itself: it would notice what it is there to notice."""

from __future__ import annotations

import os

import psycopg2
import pytest

from tests.support.concurrency import background, wait_until, wait_until_blocked
from tests.support.database import Database
from tests.support.server import VERSION

CREATE_TASK = """
SELECT task_id FROM rvq.create_tasks('{default}', '{2}', '{1,2}', '{3,3}', '{null}', '{null}', '{null}',
                                     '{null}', '{all}', '{null}', '{null}', '{null}', '{null}')
"""


@pytest.mark.versions
@pytest.mark.skipif("APP_DATABASE_URL" in os.environ, reason="a server of the user's choice")
def test_the_tests_run_on_the_version_that_was_asked_for(database: Database) -> None:
    assert str(database.value("SELECT current_setting('server_version_num')::int / 10000")) == VERSION


@pytest.mark.parametrize("run", [1, 2])
def test_every_test_begins_with_an_empty_database(database: Database, run: int) -> None:
    assert database.value("SELECT count(*) FROM rvq.tasks") == 0
    database.row(CREATE_TASK)
    assert database.value("SELECT count(*) FROM rvq.tasks") == 1


def test_a_counter_that_differs_from_the_truth_is_noticed(database: Database) -> None:
    database.row(CREATE_TASK)
    assert database.drift() == []
    database.rows("DELETE FROM rvq.counter_deltas")
    database.rows("DELETE FROM rvq.counters")
    assert database.drift() != []
    database.rows("SELECT rvq.repair_counters()")
    assert database.drift() == []


def test_a_blocked_connection_is_noticed_and_its_holder_known(database: Database) -> None:
    holder, waiting = database.connect(autocommit=False), database.connect()
    database.rows("LOCK TABLE rvq.open_tasks", on=holder)
    with background(database.rows, "SELECT * FROM rvq.open_tasks", on=waiting) as answer:
        wait_until_blocked(database.main, waiting, by=holder)
        assert not answer.done()
        holder.rollback()
        assert answer.result(10) == []


def test_waiting_for_what_never_happens_fails() -> None:
    with pytest.raises(AssertionError, match=r"did not happen in 0\.01 s: nothing"):
        wait_until(lambda: False, "nothing", 0.01)


def test_the_clock_moves_for_open_and_for_later_connections(database: Database) -> None:
    ahead = "SELECT extract(epoch FROM rvq.clock() - clock_timestamp())"
    earlier = database.connect()
    database.move_clock(7200)
    for connection in (database.main, earlier, database.connect()):
        assert float(database.value(ahead, on=connection)) == pytest.approx(7200, abs=60)


def test_the_clock_is_right_in_the_next_test(database: Database) -> None:
    assert abs(float(database.value("SELECT extract(epoch FROM rvq.clock() - clock_timestamp())"))) < 60


def test_connections_are_closed_after_the_test(database_url: str) -> None:
    database = Database(database_url)
    connection = database.connect()
    database.close()
    with pytest.raises(psycopg2.InterfaceError, match="closed"):
        connection.cursor()
