"""Two last steps of one task that meet at the very end: the second waits for the first and sees what it did.

The first is stopped inside its COMMIT, everything written, by a deferred trigger on open_tasks; the second
begins meanwhile. Every kind of step meets every kind, under every policy, on two real connections.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product

import pytest

from app.db import Connection
from tests.locks.conftest import LONG, database_of_its_own
from tests.sql.calls import URL, Calls, Lease
from tests.support.concurrency import wait_until_blocked
from tests.support.database import Database
from tests.support.server import Server

STOP = 4711
PAUSE = f"""
CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock({STOP}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER pause AFTER UPDATE OR DELETE ON rvq.open_tasks DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION pause()"""
POLICIES = ("all", "fail_fast", "at_least")
Step = Callable[[Calls, int, Lease], object]


def succeed(rvq: Calls, task_id: int, lease: Lease) -> object:
    return rvq.succeed(lease)


def fail(rvq: Calls, task_id: int, lease: Lease) -> object:
    return rvq.fail_for_good(lease)


def retry(rvq: Calls, task_id: int, lease: Lease) -> object:
    """The last attempt: a failure that could be tried again, if there were one left."""
    return rvq.fail(lease)


def expire(rvq: Calls, task_id: int, lease: Lease) -> object:
    return rvq.expire()


def cancel(rvq: Calls, task_id: int, lease: Lease) -> object:
    return rvq.cancel(task_id)


def overdue(rvq: Calls, task_id: int, lease: Lease) -> object:
    return rvq.end_overdue()


STEPS: dict[str, Step] = {
    "success": succeed,
    "failure": fail,
    "last attempt": retry,
    "expiry": expire,
    "cancel": cancel,
    "deadline": overdue,
}


@pytest.fixture(scope="module")
def stopping(server: Server) -> Iterator[Database]:
    """A database in which whoever changed a task stops at its COMMIT while STOP is held."""
    with database_of_its_own(server, "last_steps") as database:
        database.rows(PAUSE)
        yield database
        assert database.drift() == []
        sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert database.value(sql) == 0


@contextmanager
def stopped(database: Database, first: Connection) -> Iterator[Callable[[], None]]:
    """A way to wait until `first` has stopped; commits go on after the block."""
    gate = database.connect(autocommit=False)
    database.rows("SELECT pg_advisory_xact_lock(%s)", (STOP,), on=gate)
    try:
        yield lambda: wait_until_blocked(database.main, first, gate)
    finally:
        gate.close()


def make(database: Database, policy: str, steps: Sequence[str]) -> tuple[int, list[Lease]]:
    """A task with one claimed sub_task for each step, overdue and expired where the step needs it."""
    rvq = Calls(database.main)
    database.rows("SET rvq.clock_offset = '-100'")
    task_id = rvq.create(
        2,
        max_attempts=1,
        webhook=URL,
        policy=policy,
        required=1 if policy == "at_least" else None,
        deadline=50 if "deadline" in steps else None,
    )
    leases = [rvq.claim_one(lease=50 if step == "expiry" else 3600) for step in steps]
    database.rows("SET rvq.clock_offset = '0'")
    return task_id, leases


def summary(rvq: Calls, task_id: int) -> tuple[object, ...]:
    """How it ended, without ids and times."""
    task = rvq.task(task_id)
    return task.status, task.counts, sorted(rvq.statuses(task_id)), rvq.events(task_id)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("first", "second"), list(product(STEPS, STEPS)))
def test_two_last_steps_at_once_end_the_task_once(
    stopping: Database, policy: str, first: str, second: str
) -> None:
    expected, in_turn = one_after_the_other(stopping, policy, first, second)
    task_id, leases = make(stopping, policy, (first, second))
    assert at_once(stopping, (first, second), task_id, leases) == in_turn
    rvq = Calls(stopping.main)
    assert summary(rvq, task_id) == expected
    assert len(rvq.events(task_id)) == 1
    assert sum(rvq.task(task_id).counts.values()) == 2


def at_once(
    database: Database, steps: tuple[str, str], task_id: int, leases: list[Lease]
) -> tuple[object, object]:
    """Both answers. The second is seen to wait for the first, which is at its COMMIT."""
    one, two = Calls(database.connect()), Calls(database.connect())
    with ThreadPoolExecutor(2) as pool:
        with stopped(database, one.connection) as first_has_stopped:
            ahead = pool.submit(STEPS[steps[0]], one, task_id, leases[0])
            first_has_stopped()
            behind = pool.submit(STEPS[steps[1]], two, task_id, leases[1])
            wait_until_blocked(database.main, two.connection, one.connection)
        answers = ahead.result(10), behind.result(10)
    one.connection.close()
    two.connection.close()
    return answers


def one_after_the_other(
    database: Database, policy: str, first: str, second: str
) -> tuple[tuple[object, ...], tuple[object, object]]:
    """What comes of it, and the two answers, when the second begins after the first has ended."""
    rvq = Calls(database.main)
    task_id, (lease, other) = make(database, policy, (first, second))
    answers = STEPS[first](rvq, task_id, lease), STEPS[second](rvq, task_id, other)
    return summary(rvq, task_id), answers


TASKS, CLIENTS = (20_000 if LONG else 2_000), 16


class Client:
    """Claims, reports shuffled batches, also of what others claimed, cancels, retries and expires."""

    def __init__(self, rvq: Calls, seed: int, tasks: Sequence[int], shared: list[Lease]) -> None:
        self.rvq, self.tasks, self.shared = rvq, tasks, shared
        self.chance = random.Random(seed)

    def run(self) -> None:
        idle = 0
        while idle < 3:
            claimed = self.rvq.claim(self.chance.randint(1, 20))
            idle = 0 if claimed else idle + 1
            self.shared.extend(claimed)
            self._report(claimed)
            self._disturb()

    def _report(self, claimed: list[Lease]) -> None:
        others = self.chance.sample(self.shared[-60:], min(10, len(self.shared[-60:])))
        batch = [*claimed, *others]
        self.chance.shuffle(batch)
        if batch:
            self.rvq.heartbeat(*batch)
            good = [lease for lease in batch if lease.id % 7]
            bad = [lease for lease in batch if not lease.id % 7]
            self.rvq.succeed(*good) if good else None
            self.rvq.fail_for_good(*bad) if bad else None

    def _disturb(self) -> None:
        if self.chance.random() < 0.3:
            self.rvq.cancel(self.chance.choice(self.tasks))
        if self.chance.random() < 0.3:
            self.rvq.retry(self.chance.choice(self.tasks))
        if self.chance.random() < 0.2:
            self.rvq.expire(), self.rvq.end_overdue(), self.rvq.promote()


@pytest.mark.slow
def test_many_tasks_under_sixteen_clients_each_end_with_one_event(database: Database) -> None:
    rvq = Calls(database.main)
    tasks = [
        rvq.create(2, policy=POLICIES[number % 3], required=1 if number % 3 == 2 else None, webhook=URL)
        for number in range(TASKS)
    ]
    shared: list[Lease] = []
    clients = [Client(Calls(database.connect()), seed, tasks, shared) for seed in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        for future in [pool.submit(client.run) for client in clients]:
            future.result(300)
    while leases := rvq.claim(1_000):
        rvq.succeed(*leases)
    assert_ended_once(database, rvq)


def assert_ended_once(database: Database, rvq: Calls) -> None:
    """No task is open; each has one event for each of its runs, and the safety net finds nothing."""
    last, stranded = rvq.sweep(limit=100_000)
    assert (last, stranded) == (None, 0)
    runs = database.rows(
        "SELECT rvq.task_of(id), array_agg(id - rvq.task_of(id) ORDER BY id) FROM rvq.events GROUP BY 1"
    )
    assert len(runs) == TASKS
    assert [row for row in runs if row[1] != list(range(len(row[1])))] == []
    wrong = "SELECT count(*) FROM rvq.events WHERE succeeded + failed + cancelled <> 2"
    assert database.value(wrong) == 0
