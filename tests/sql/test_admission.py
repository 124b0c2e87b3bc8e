"""Create refuses while the queue is about to degrade; everything else goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.sql.calls import Calls
from tests.support.database import Database


@pytest.fixture(autouse=True)
def _bounds_are_back(database: Database) -> Iterator[None]:
    yield
    database.rows("DELETE FROM rvq.admission")
    database.rows("INSERT INTO rvq.admission DEFAULT VALUES")


def check(rvq: Calls) -> str | None:
    rvq.fold()
    refusal: str | None = rvq.value("SELECT rvq.check_admission()")
    return refusal


def bound(rvq: Calls, **bounds: object) -> None:
    for name, value in bounds.items():
        rvq.rows(f"UPDATE rvq.admission SET {name} = %s", (value,))


def test_a_healthy_queue_admits(rvq: Calls) -> None:
    assert check(rvq) is None
    assert rvq.post().outcome == "created"


def test_a_backlog_over_its_bound_refuses_creates_until_it_is_worked_off(rvq: Calls) -> None:
    rvq.create(5)
    bound(rvq, max_backlog=4)
    assert check(rvq) == "5 sub_tasks wait; the bound is 4"
    assert rvq.post().outcome == "refused"
    assert len(rvq.tasks()) == 1
    rvq.succeed(*rvq.claim(2))
    assert rvq.post().outcome == "refused"
    assert check(rvq) is None
    assert rvq.post().outcome == "created"


def test_a_replay_is_answered_all_the_same(rvq: Calls) -> None:
    first = rvq.post(5, key="k", body_hash=b"x")
    bound(rvq, max_backlog=1)
    check(rvq)
    assert rvq.post(5, key="k", body_hash=b"x")[:2] == ("replayed", first.task_id)
    assert rvq.post(5, key="other", body_hash=b"x").outcome == "refused"


def test_a_key_that_was_refused_is_free(rvq: Calls) -> None:
    rvq.create(5)
    bound(rvq, max_backlog=1)
    check(rvq)
    assert rvq.post(key="k", body_hash=b"x").outcome == "refused"
    rvq.cancel(rvq.tasks()[0].id)
    check(rvq)
    assert rvq.post(key="k", body_hash=b"x").outcome == "created"


def test_a_transaction_open_for_long_refuses_creates(rvq: Calls, in_transaction: Callable[[], Calls]) -> None:
    bound(rvq, max_transaction_age="0 seconds")
    reader = in_transaction()
    reader.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    reader.rows("SELECT 1")
    refusal = check(rvq)
    assert refusal is not None
    assert refusal.startswith("a transaction is open for")
    reader.connection.rollback()


def test_what_was_checked_long_ago_says_nothing(rvq: Calls, database: Database) -> None:
    rvq.create(5)
    bound(rvq, max_backlog=1)
    check(rvq)
    database.move_clock(61)
    assert rvq.post().outcome == "created"


def test_reset_keeps_the_bounds(rvq: Calls) -> None:
    bound(rvq, max_backlog=7)
    rvq.rows("SELECT rvq.reset()")
    assert rvq.value("SELECT max_backlog FROM rvq.admission") == 7
