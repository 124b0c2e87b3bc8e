"""What compares times stays right when the clock steps: order, floors, breakers, listings, counters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from app.db import Row
from tests.sql.calls import HOST, NEWEST, URL, Calls
from tests.support.database import Database

pytestmark = pytest.mark.usefixtures("usual_days")

HOUR, DAY = 3_600, 86_400
BACK = [-HOUR, -DAY]


@pytest.fixture(autouse=True)
def _yesterday_has_its_partitions(database: Database) -> None:
    database.move_clock(-DAY)
    database.rows("SELECT rvq.create_partitions(9)")
    database.move_clock(0)


def follow(rvq: Calls, batch: int = 1000) -> int:
    """Let a whole walk follow the clock; how much was shortened."""
    after: int | None = 0
    shortened = 0
    while after is not None:
        ((after, number),) = rvq.rows("SELECT * FROM rvq.follow_clock(%s, %s)", (after, batch))
        shortened += number
    return shortened


def keep_floors(rvq: Calls) -> None:
    rvq.fold()
    rvq.raise_floors()
    rvq.value("SELECT rvq.rescue_below_floors()")


def requeued(rvq: Calls, task_id: int) -> bool:
    return bool(rvq.value("SELECT requeued FROM rvq.open_sub_tasks WHERE id = %s", (task_id + 1,)))


# order and floors


@pytest.mark.parametrize("step", BACK)
def test_what_was_queued_before_the_clock_was_set_back_is_claimed_first(
    rvq: Calls, database: Database, step: float
) -> None:
    before = rvq.create(2)
    keep_floors(rvq)
    database.move_clock(step)
    keep_floors(rvq)
    after = rvq.create(2)
    keep_floors(rvq)
    claimed = [lease.id for lease in rvq.claim(3)]
    assert claimed == [before + 1, before + 2, after + 1]


@pytest.mark.parametrize("step", BACK)
def test_floors_follow_the_clock_back_so_that_new_work_stays_new(
    rvq: Calls, database: Database, step: float
) -> None:
    """Else all that is created for a day would be requeued, and go before what waits already."""
    rvq.create()
    rvq.claim(1)
    keep_floors(rvq)
    database.move_clock(step)
    assert requeued(rvq, rvq.create())
    keep_floors(rvq)
    assert not requeued(rvq, rvq.create())
    assert len(rvq.claim(5)) == 2


def test_ids_are_never_used_twice_however_the_clock_steps(rvq: Calls, database: Database) -> None:
    ids = []
    for step in (0, -DAY, 0, DAY, -HOUR, HOUR, 0):
        database.move_clock(step)
        ids += [rvq.create(2, webhook=URL) for _ in range(3)]
    assert len(set(ids)) == len(ids) == 21
    assert len(rvq.succeed(*rvq.claim(100))) == 42
    assert len({delivery.id for delivery in rvq.claim_deliveries(host_limit=100)}) == 21


# waits


@pytest.mark.parametrize("step", BACK)
def test_moments_that_a_partner_gave_stay_where_they_are(rvq: Calls, database: Database, step: float) -> None:
    moment: datetime = database.value("SELECT clock_timestamp() + interval '10 seconds'")
    waiting = rvq.create(not_before=moment, deadline=50)
    database.move_clock(step)
    assert follow(rvq) == 0
    assert rvq.promote() == 0
    database.move_clock(11)
    assert rvq.promote() == 1
    assert rvq.end_overdue() == 0
    database.move_clock(61)
    assert rvq.end_overdue() == 1
    assert rvq.task(waiting).status == "failed"


@pytest.mark.parametrize("asked", [30, 5000, 604_800])
def test_a_back_off_is_as_long_as_it_was_meant_to_be(rvq: Calls, database: Database, asked: int) -> None:
    rvq.create(2)
    rvq.fail(*rvq.claim(2), retry_after=asked)
    assert follow(rvq) == 0
    database.move_clock(-DAY)
    assert follow(rvq, batch=1) == 2
    assert follow(rvq) == 0
    database.move_clock(asked - DAY - 2)
    assert rvq.promote() == 0
    database.move_clock(asked - DAY + 2)
    assert rvq.promote() == 2


def test_a_wait_whose_length_is_unknown_is_as_long_as_the_longest(rvq: Calls, database: Database) -> None:
    """So wrote it the functions of 0.1.0."""
    rvq.create(3, webhook=URL)
    one, two, _ = rvq.claim(3, lease=3600)
    rvq.fail(one, two, retry_after=604_800)
    rvq.rows("UPDATE rvq.open_sub_tasks SET wait_seconds = NULL")
    assert follow(rvq) == 0
    database.move_clock(-DAY)
    assert follow(rvq) == 3
    ends = rvq.rows(
        "SELECT extract(epoch FROM coalesce(lease_expires_at, due_at) - rvq.clock())::float8"
        " FROM rvq.open_sub_tasks ORDER BY 1"
    )
    assert [round(end, -1) for (end,) in ends] == [3600, 604_800, 604_800]


@pytest.mark.parametrize("step", BACK)
def test_a_dispatcher_settles_what_it_claimed_before_the_clock_was_set_back(
    rvq: Calls, database: Database, step: float
) -> None:
    rvq.create(webhook=URL)
    rvq.succeed(rvq.claim_one())
    deliveries = rvq.claim_deliveries()
    database.move_clock(step)
    assert follow(rvq) == 1
    assert rvq.claim_deliveries() == []
    assert rvq.settle(*deliveries) == [deliveries[0].id]


@pytest.mark.parametrize("step", BACK)
def test_a_host_rests_for_a_minute_at_most(rvq: Calls, database: Database, step: float) -> None:
    for _ in range(5):
        rvq.create(webhook=URL)
    rvq.succeed(*rvq.claim(5))
    rvq.put_off(*rvq.claim_deliveries(), delay=0)
    assert rvq.claim_deliveries() == []
    database.move_clock(step)
    follow(rvq)
    assert len(rvq.claim_deliveries()) == 1
    assert rvq.rows("SELECT host FROM rvq.webhook_hosts") == [(HOST,)]


@pytest.mark.parametrize("step", [*BACK, HOUR, DAY])
def test_a_refusal_of_before_the_step_counts_for_nothing(rvq: Calls, database: Database, step: float) -> None:
    rvq.rows("UPDATE rvq.admission SET refusal = 'too much', checked_at = clock_timestamp()")
    assert rvq.post().outcome == "refused"
    database.move_clock(step)
    assert rvq.post().outcome == "created"


# what is shown


@pytest.mark.parametrize("step", BACK)
def test_the_last_outcome_is_the_last_one_whatever_the_clock_said(
    rvq: Calls, database: Database, step: float
) -> None:
    """The sub_task failed, was reopened, and was cancelled before anybody claimed it again."""
    task_id = rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    database.move_clock(step)
    assert rvq.retry(task_id) == "retried"
    assert rvq.cancel(task_id) == "cancelled"
    assert rvq.statuses(task_id) == ["cancelled"]
    assert database.drift() == []


@pytest.mark.parametrize("step", [*BACK, HOUR, DAY])
def test_a_task_never_ends_before_it_was_created(rvq: Calls, database: Database, step: float) -> None:
    task_id = rvq.create(webhook=URL)
    database.move_clock(step)
    rvq.succeed(rvq.claim_one())
    task, body = rvq.task(task_id), rvq.event_body(task_id, rvq.events(task_id)[0][0])
    assert task.finished_at is not None
    assert task.finished_at - task.created_at >= timedelta(0)
    assert body["data"]["created_at"] <= body["data"]["finished_at"] == body["timestamp"]
    follow(rvq)
    assert len(rvq.claim_deliveries()) == 1


def test_listings_and_the_feed_have_everything_once(rvq: Calls, database: Database) -> None:
    made = []
    for step in (0, -DAY, DAY, -HOUR, 0):
        database.move_clock(step)
        made.append(rvq.create())
        rvq.succeed(*rvq.claim(5))
    listed: list[int] = []
    while page := rvq.tasks(limit=2, before=listed[-1] if listed else NEWEST):
        listed += [task.id for task in page]
    assert sorted(listed) == sorted(made)
    feed: list[Row] = [("0", 0)]
    while page_of := rvq.rows("SELECT xid::text, id FROM rvq.list_events(%s, %s, 2)", feed[-1]):
        feed += page_of
    assert [event & -16384 for _, event in feed[1:]] == made


def test_retention_counts_a_task_once_whose_events_are_far_apart(
    rvq: Calls, database: Database, restart: Callable[[], Calls]
) -> None:
    """A task that is reopened after a start of the server has ordinals with gaps."""
    database.move_clock(-DAY)
    task_id = rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    database.move_clock(-HOUR)
    session = restart()
    assert session.retry(task_id) == "retried"
    session.fail_for_good(session.claim_one())
    first, second = (ordinal for ordinal, _ in rvq.events(task_id))
    assert second - first > 1
    database.move_clock(32 * DAY)
    while rvq.value("SELECT rvq.drop_expired_partitions(30)"):
        pass
    assert rvq.rows("SELECT * FROM rvq.read_task(%s)", (task_id,)) == []
    assert database.drift() == []
