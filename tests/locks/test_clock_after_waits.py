"""What was waited for is no part of a lease, a back-off or a deadline: the clock is read afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.sql.calls import URL, Calls, Delivery, Lease
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database

DOOR = "SELECT pg_advisory_xact_lock(1, 0)"
SUB_TASK = "SELECT 1 FROM rvq.open_sub_tasks FOR UPDATE"
DELIVERY = "SELECT 1 FROM rvq.due_deliveries FOR UPDATE"
TASK = "SELECT 1 FROM rvq.open_tasks FOR UPDATE"
SECOND = timedelta(seconds=1)


def table(name: str, mode: str = "ACCESS EXCLUSIVE") -> str:
    return f"LOCK TABLE rvq.{name} IN {mode} MODE"


class Waiting:
    """Holds a lock while a call waits for it; `released_at` is the last moment of the wait."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.caller = Calls(database.connect())

    def call(self, held: str, do: Callable[[Calls], object]) -> datetime:
        """Run the call until it waits for what `held` locks, then let it go on; return `released_at`."""
        holder = self.database.connect(autocommit=False)
        self.database.rows(held, on=holder)
        with background(do, self.caller) as answer:
            wait_until_blocked(self.database.main, self.caller.connection, holder)
            released_at: datetime = self.database.value("SELECT clock_timestamp()")
            holder.rollback()
            answer.result(10)
        return released_at

    def moment(self, sql: str) -> datetime:
        moment: datetime = self.database.value(sql)
        return moment


@pytest.fixture
def waiting(database: Database) -> Waiting:
    return Waiting(database)


@pytest.fixture
def rvq(database: Database) -> Calls:
    return Calls(database.main)


CLAIM = [DOOR, *map(table, ("open_sub_tasks", "sub_tasks", "queues", "counter_deltas"))]
HEARTBEAT = [DOOR, SUB_TASK, *map(table, ("open_sub_tasks", "sub_tasks", "outcomes"))]
CLAIM_DELIVERIES = [
    DOOR,
    *map(table, ("due_deliveries", "events", "webhook_hosts")),
    "SELECT pg_advisory_xact_lock(1, 3)",
]
CREATE = [
    DOOR,
    *map(table, ("admission", "id_days", "tasks", "sub_tasks", "open_tasks", "open_sub_tasks", "queues")),
    table("counter_deltas"),
    table("idempotency_keys"),
    "INSERT INTO rvq.idempotency_keys VALUES ('k', 'x', 0)",
]
RETRY = [DOOR, *map(table, ("tasks", "events", "outcomes", "open_sub_tasks", "counter_deltas", "open_tasks"))]
FAIL = [DOOR, SUB_TASK, *map(table, ("open_sub_tasks", "outcomes", "counter_deltas"))]
PUT_OFF = [DOOR, DELIVERY, *map(table, ("due_deliveries", "delivery_attempts", "counter_deltas"))]
END = [DOOR, SUB_TASK, TASK, *map(table, ("open_sub_tasks", "outcomes", "open_tasks"))]


@pytest.mark.parametrize("held", [*CLAIM, table("open_sub_tasks", "SHARE"), table("counter_deltas", "SHARE")])
def test_a_claim_grants_the_whole_lease_after_its_wait(rvq: Calls, waiting: Waiting, held: str) -> None:
    rvq.create()
    claimed: list[Lease] = []
    released_at = waiting.call(held, lambda caller: claimed.extend(caller.claim(1, lease=1)))
    assert claimed[0].expires_at >= released_at + SECOND
    assert claimed[0].expires_at == waiting.moment("SELECT lease_expires_at FROM rvq.open_sub_tasks")


@pytest.mark.parametrize("held", HEARTBEAT)
def test_a_heartbeat_grants_the_whole_lease_after_its_wait(rvq: Calls, waiting: Waiting, held: str) -> None:
    rvq.create()
    lease = rvq.claim_one()
    released_at = waiting.call(held, lambda caller: caller.heartbeat(lease, seconds=1))
    assert waiting.moment("SELECT lease_expires_at FROM rvq.open_sub_tasks") >= released_at + SECOND


@pytest.mark.parametrize("held", CLAIM_DELIVERIES)
def test_a_claimed_delivery_has_its_whole_lease_after_the_wait(
    rvq: Calls, waiting: Waiting, held: str
) -> None:
    rvq.create(webhook=URL)
    rvq.succeed(rvq.claim_one())
    claimed: list[Delivery] = []
    released_at = waiting.call(held, lambda caller: claimed.extend(caller.claim_deliveries(lease=1)))
    assert len(claimed) == 1
    assert waiting.moment("SELECT lease_expires_at FROM rvq.due_deliveries") >= released_at + SECOND
    assert waiting.moment("SELECT claimed_at FROM rvq.due_deliveries") >= released_at


@pytest.mark.parametrize("held", CREATE)
def test_a_task_that_waited_to_be_stored_has_its_whole_deadline(
    rvq: Calls, waiting: Waiting, held: str
) -> None:
    rvq.create(key="before", body_hash=b"x", queue="q")
    created: list[datetime] = []
    released_at = waiting.call(
        held, lambda caller: created.append(caller.post(deadline=1, key="k", body_hash=b"x").created_at)
    )
    sql = "SELECT {} FROM rvq.open_tasks ORDER BY id DESC LIMIT 1"
    assert waiting.moment(sql.format("deadline_at")) >= released_at + SECOND
    assert waiting.moment(sql.format("created_at")) == created[0] >= released_at


@pytest.mark.parametrize("held", RETRY)
def test_a_reopened_task_has_its_whole_deadline_after_the_wait(
    rvq: Calls, waiting: Waiting, held: str
) -> None:
    task_id = rvq.create(deadline=1)
    rvq.fail_for_good(rvq.claim_one())
    released_at = waiting.call(held, lambda caller: caller.retry(task_id))
    assert waiting.moment("SELECT deadline_at FROM rvq.open_tasks") >= released_at + SECOND


@pytest.mark.parametrize("held", FAIL)
def test_a_back_off_begins_after_the_wait(rvq: Calls, waiting: Waiting, held: str) -> None:
    rvq.create()
    lease = rvq.claim_one()
    released_at = waiting.call(held, lambda caller: caller.fail(lease, retry_after=1))
    assert waiting.moment("SELECT due_at FROM rvq.open_sub_tasks") >= released_at + SECOND


@pytest.mark.parametrize("held", FAIL)
def test_the_back_off_of_an_expired_lease_begins_after_the_wait(
    rvq: Calls, waiting: Waiting, held: str
) -> None:
    rvq.create()
    rvq.claim_one()
    rvq.rows("UPDATE rvq.open_sub_tasks SET lease_expires_at = clock_timestamp()")
    released_at = waiting.call(held, lambda caller: caller.expire())
    assert waiting.moment("SELECT due_at FROM rvq.open_sub_tasks") >= released_at + 0.9 * SECOND


@pytest.mark.parametrize("held", PUT_OFF)
def test_the_next_try_of_a_delivery_is_counted_from_after_the_wait(
    rvq: Calls, waiting: Waiting, held: str
) -> None:
    rvq.create(webhook=URL)
    rvq.succeed(rvq.claim_one())
    deliveries = rvq.claim_deliveries()
    released_at = waiting.call(held, lambda caller: caller.put_off(*deliveries, delay=1))
    assert waiting.moment("SELECT due_at FROM rvq.due_deliveries") >= released_at + SECOND


def test_a_host_rests_from_after_the_wait(rvq: Calls, waiting: Waiting) -> None:
    for _ in range(5):
        rvq.create(webhook=URL)
    rvq.succeed(*rvq.claim(5))
    deliveries = rvq.claim_deliveries()
    released_at = waiting.call(table("webhook_hosts"), lambda caller: caller.put_off(*deliveries))
    assert waiting.moment("SELECT broken_until FROM rvq.webhook_hosts") >= released_at + SECOND


@pytest.mark.parametrize("held", END)
def test_a_task_ends_when_its_last_wait_is_over(rvq: Calls, waiting: Waiting, held: str) -> None:
    task_id = rvq.create(webhook=URL)
    lease = rvq.claim_one()
    released_at = waiting.call(held, lambda caller: caller.succeed(lease))
    finished_at = rvq.task(task_id).finished_at
    last = rvq.sub_tasks(task_id)[0].finished_at
    assert finished_at is not None
    assert last is not None
    assert max(released_at, last) <= finished_at
