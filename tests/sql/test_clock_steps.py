"""The database's clock steps back or forward, once or there and back again, at any stage of a task's life.

Nothing is lost, nothing waits for longer than it was meant to, nothing is handed out twice. Each stage is
reached as a worker or a dispatcher would reach it: by asking again, while maintenance runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.sql.calls import URL, Calls, Delivery, Lease
from tests.support.database import Database

pytestmark = pytest.mark.usefixtures("usual_days")

T = TypeVar("T")
HOUR, DAY = 3_600, 86_400
LEASE, DELIVERY_LEASE, PUT_OFF = 60, 30, 300
# Of a clock that was set back, what is less than a minute too late is left as it is.
MARGIN = 66
STEPS = {"a day back": -DAY, "an hour back": -HOUR, "an hour on": HOUR, "a day on": DAY}


class Clock:
    """Time passes with `pass_by`, and `step` is what the clock is wrong by."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.passed = 0.0
        self.step = 0.0

    def pass_by(self, seconds: float) -> None:
        self.passed += seconds
        self.show()

    def set_wrong_by(self, step: float) -> None:
        self.step = step
        self.show()

    def show(self) -> None:
        self.database.move_clock(self.passed + self.step)

    def maintain(self) -> None:
        """Do what the dispatcher's steps do."""
        database = self.database
        database.rows("SELECT rvq.create_partitions(7)")
        after: int | None = 0
        while after is not None:
            after = database.row("SELECT * FROM rvq.follow_clock(%s, 100)", (after,))[0]
        for step in MAINTENANCE:
            database.rows(f"SELECT {step}")

    def until(self, seconds: float, ask: Callable[[], T]) -> T:
        """Ask again and again while that time passes; return the first answer that is something."""
        for _ in range(12):
            self.maintain()
            answer = ask()
            if answer:
                return answer
            self.pass_by(seconds / 11)
        raise AssertionError(f"nothing came within {seconds} s")


MAINTENANCE = [
    "rvq.fold_counters()",
    "rvq.raise_claim_floors('', 1000)",
    "rvq.rescue_below_floors(1000)",
    "rvq.expire_leases(1000)",
    "rvq.promote_due(1000)",
    "rvq.end_overdue_tasks(100)",
    "rvq.expire_delivery_leases(1000)",
    "rvq.check_admission()",
    "rvq.sweep_stranded_tasks(0, 1000)",
    "rvq.end_abandoned_tasks(120, 0, 1000)",
    "rvq.give_up_deliveries(30, 1000)",
    "rvq.drop_expired_partitions(30)",
]


class Life:
    """A task of two sub_tasks, from create to webhook; each method is a stage and checks what it brought."""

    def __init__(self, rvq: Calls, clock: Clock) -> None:
        self.rvq, self.clock = rvq, clock
        self.task_id = 0
        self.leases: dict[int, Lease] = {}
        self.tokens: set[str] = set()
        self.deliveries: list[Delivery] = []

    def create(self) -> None:
        self.task_id = self.rvq.create(2, webhook=URL, key="k", body_hash=b"x")

    def claim(self) -> None:
        self.take(self.clock.until(0, lambda: self.rvq.claim(5, lease=LEASE)))
        assert self.rvq.post(2, key="k", body_hash=b"x")[:2] == ("replayed", self.task_id)

    def one_fails_and_one_worker_dies(self) -> None:
        first, _ = self.leases.values()
        assert self.rvq.fail(first) == ["retrying"]
        assert self.rvq.fail(first) == ["duplicate"]

    def both_are_claimed_again(self) -> None:
        """One after a second's back-off, the other after its lease and a second."""
        taken = self.clock.until(2 + MARGIN, lambda: self.rvq.claim(5, lease=LEASE))
        if len(taken) == 1:
            taken += self.clock.until(LEASE + 2 + MARGIN, lambda: self.claim_beside(taken))
        self.take(taken)

    def the_task_ends(self) -> None:
        assert set(self.rvq.succeed(*self.leases.values())) == {"succeeded"}
        task = self.rvq.task(self.task_id)
        assert (task.status, task.counts) == ("succeeded", {"succeeded": 2})
        assert task.finished_at is not None
        assert task.finished_at >= task.created_at

    def the_webhook_is_put_off(self) -> None:
        self.deliveries = self.clock.until(MARGIN, lambda: self.rvq.claim_deliveries(lease=DELIVERY_LEASE))
        assert self.rvq.claim_deliveries() == []
        assert self.rvq.put_off(*self.deliveries, delay=PUT_OFF) == [self.deliveries[0].id]

    def its_dispatcher_dies(self) -> None:
        (again,) = self.clock.until(PUT_OFF + MARGIN, lambda: self.rvq.claim_deliveries(lease=DELIVERY_LEASE))
        (before,) = self.deliveries
        assert (again.id, again.body, again.tries) == (before.id, before.body, 2)

    def another_gives_up(self) -> None:
        self.deliveries = self.clock.until(DELIVERY_LEASE + MARGIN, self.rvq.claim_deliveries)
        assert self.rvq.give_up(*self.deliveries) == [self.deliveries[0].id]

    def it_is_sent_again(self) -> None:
        assert self.rvq.redeliver(self.deliveries[0].id) == ["redelivered"]
        self.deliveries = self.clock.until(MARGIN, self.rvq.claim_deliveries)
        assert self.rvq.settle(*self.deliveries) == [self.deliveries[0].id]

    def take(self, leases: list[Lease]) -> None:
        """Nobody was given the same sub_task, or the same token, twice."""
        assert {lease.id for lease in leases} == {self.task_id + 1, self.task_id + 2}
        assert len(leases) == 2
        assert self.tokens.isdisjoint(lease.token for lease in leases)
        self.tokens |= {lease.token for lease in leases}
        self.leases = {lease.id: lease for lease in leases}

    def claim_beside(self, leases: list[Lease]) -> list[Lease]:
        """A worker that is alive keeps its lease while others claim."""
        assert self.rvq.heartbeat(*leases, seconds=LEASE) == ["extended"] * len(leases)
        return self.rvq.claim(5, lease=LEASE)

    def has_left_what_it_should(self) -> None:
        events = self.rvq.rows("SELECT id FROM rvq.list_events('0', 0, 10)")
        assert [event & -16384 for (event,) in events] == [self.task_id]
        ledger = self.rvq.ledger(events[0][0])
        assert [attempt for attempt, _, _ in ledger] == [1, 2, 3, 4]
        assert [status for _, _, status in ledger] == ["pending", "pending", "dead", "delivered"]
        assert [task.id for task in self.rvq.tasks()] == [self.task_id]
        assert self.rvq.stats()["sub_tasks"]["succeeded"] == 2
        assert self.rvq.stats()["deliveries"] == {"pending": 0, "delivered": 1, "dead": 0}


STAGES = [
    Life.create,
    Life.claim,
    Life.one_fails_and_one_worker_dies,
    Life.both_are_claimed_again,
    Life.the_task_ends,
    Life.the_webhook_is_put_off,
    Life.its_dispatcher_dies,
    Life.another_gives_up,
    Life.it_is_sent_again,
]


@pytest.fixture
def clock(database: Database) -> Clock:
    return Clock(database)


@pytest.mark.parametrize("back_again", [1, 2, len(STAGES)])
@pytest.mark.parametrize("at", range(len(STAGES)), ids=[f"after {stage.__name__}" for stage in STAGES])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_life_goes_on_whenever_the_clock_steps(
    rvq: Calls, clock: Clock, step: float, at: int, back_again: int
) -> None:
    life = Life(rvq, clock)
    for number, stage in enumerate(STAGES):
        stage(life)
        if number == at:
            clock.set_wrong_by(step)
        elif number == at + back_again:
            clock.set_wrong_by(0)
    life.has_left_what_it_should()


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_worker_that_beats_keeps_its_lease_over_a_step(rvq: Calls, clock: Clock, step: float) -> None:
    rvq.create()
    lease = rvq.claim_one(lease=LEASE)
    clock.set_wrong_by(step)
    assert rvq.heartbeat(lease, seconds=LEASE) == ["extended"]
    clock.maintain()
    for _ in range(3):
        clock.pass_by(LEASE - 1)
        assert rvq.claim(5) == []
        assert rvq.heartbeat(lease, seconds=LEASE) == ["extended"]
        clock.maintain()
    assert rvq.succeed(lease) == ["succeeded"]


@pytest.mark.parametrize("step", [-DAY, -HOUR])
def test_a_lease_is_not_shorter_for_a_clock_that_was_set_back(rvq: Calls, clock: Clock, step: float) -> None:
    rvq.create()
    lease = rvq.claim_one(lease=1000)
    clock.set_wrong_by(step)
    clock.maintain()
    clock.pass_by(999)
    clock.maintain()
    assert rvq.claim(5) == []
    clock.pass_by(2)
    assert rvq.expire() == 1
    assert rvq.succeed(lease) == ["succeeded"]
