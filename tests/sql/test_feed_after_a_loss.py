"""Cursors of before a restore go on, those of a lost part are refused, and the order of the feed stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.sql.calls import Calls
from tests.support.concurrency import wait_until

LOST = [(None, None)]
START = (0, 0, 0)

Another = Callable[[], Calls]
Cursor = tuple[int, int, int]


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


def test_a_cursor_of_before_goes_on_and_one_of_what_was_lost_is_refused(rvq: Calls, restart: Another) -> None:
    end_one(rvq)
    run, xid, event = await_feed(rvq, 1)
    session = restart()
    second = end_one(session)
    assert await_feed(session, 1, (run, xid, event))[2] == second
    first_xid = rvq.value("SELECT max(first_xid) FROM rvq.server_runs")
    assert feed(session, (run, first_xid - 1, event))[0][2] == second
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
    assert rvq.rows("SELECT how FROM rvq.server_runs ORDER BY first_xid") == [("installed",), ("restored",)]
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
