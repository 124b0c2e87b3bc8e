"""Everything at once: 16 clients, overlapping shuffled batches of every operation, with and without reset.

Afterwards: no deadlock, no error, counters equal to the truth, one event for each end, nothing left open of
what ended, and (where nothing was reset) every report that was answered as stored is stored exactly once.

RVQ_ADVERSARIAL_SECONDS (8) and RVQ_ADVERSARIAL_CLIENTS (16) make it longer and wider; a failure tells its
seed for RVQ_ADVERSARIAL_SEED, which repeats each client's choices (not the server's timing).
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.sql.calls import URL, Calls, Lease, Report, failure, success
from tests.support.database import Database

pytestmark = [pytest.mark.slow, pytest.mark.versions]
SECONDS = float(os.environ.get("RVQ_ADVERSARIAL_SECONDS", "8"))
CLIENTS = int(os.environ.get("RVQ_ADVERSARIAL_CLIENTS", "16"))
SEED = int(os.environ.get("RVQ_ADVERSARIAL_SEED", str(random.randrange(2**32))))
QUEUES = ["a", "b", "c"]
POLICIES: list[dict[str, Any]] = [
    {"policy": "all"},
    {"policy": "all", "deadline": 0.2},
    {"policy": "fail_fast"},
    {"policy": "fail_fast", "deadline": 0.3},
    {"policy": "at_least", "required": 2},
    {"policy": "at_least", "required": 3, "deadline": 0.25},
]


@dataclass
class Shared:
    """What all clients know of: recent tasks and leases, for everybody to meddle with."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    tasks: list[int] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    stored: Counter[str] = field(default_factory=Counter)
    tokens: list[str] = field(default_factory=list)

    def add(self, tasks: list[int], leases: list[Lease]) -> None:
        with self.lock:
            self.tasks = (self.tasks + tasks)[-60:]
            self.leases = (self.leases + leases)[-300:]

    def note(self, reports: list[Report], outcomes: list[str]) -> None:
        with self.lock:
            self.stored.update(outcomes)
            effective = ("succeeded", "failed", "retrying")
            self.tokens += [r.token for r, o in zip(reports, outcomes, strict=True) if o in effective]


class Client:
    """One connection and its own sequence of choices."""

    def __init__(self, calls: Calls, shared: Shared, number: int, resets: bool) -> None:
        self.calls, self.shared = calls, shared
        self.rng = random.Random(SEED + number)
        self.operations: list[tuple[int, Callable[[], object]]] = [
            (6, self.create),
            (10, self.claim),
            (14, self.complete),
            (3, self.heartbeat),
            (3, self.release),
            (2, lambda: calls.cancel(self.some_task())),
            (2, lambda: calls.retry(self.some_task())),
            (2, lambda: calls.expire(self.rng.randint(1, 50))),
            (2, lambda: calls.promote(self.rng.randint(1, 50))),
            (2, lambda: calls.end_overdue(self.rng.randint(1, 20))),
            (2, calls.fold),
            (1, lambda: calls.sweep(0, 500)),
            (1, lambda: calls.rows("SELECT rvq.repair_counters()")),
            (2, self.send),
            (1, lambda: calls.expire_deliveries(20)),
            (1, lambda: calls.redeliver(self.some_task(), self.some_task())),
            (1, self.look),
            (1, calls.raise_floors),
            (1, lambda: calls.rows("SELECT rvq.rescue_below_floors()")),
            (1, lambda: calls.rows("SELECT rvq.drop_expired_partitions(0)")),
            (1, lambda: calls.rows("SELECT rvq.check_admission()")),
        ]
        if resets:
            self.operations.append((1, lambda: calls.rows("SELECT rvq.reset()")))

    def run(self, until: float) -> Counter[str]:
        weights = [weight for weight, _ in self.operations]
        done: Counter[str] = Counter()
        while time.monotonic() < until:
            (chosen,) = self.rng.choices(range(len(weights)), weights)
            self.operations[chosen][1]()
            done[str(chosen)] += 1
        return done

    def some_task(self) -> int:
        with self.shared.lock:
            return self.rng.choice(self.shared.tasks) if self.shared.tasks else 1

    def some_leases(self) -> list[Lease]:
        """Leases of anybody, in any order, some twice."""
        with self.shared.lock:
            known = self.shared.leases
            if not known:
                return []
            return [self.rng.choice(known) for _ in range(self.rng.randint(1, 25))]

    def create(self) -> None:
        options = self.rng.choice(POLICIES)
        webhook = self.rng.choice([None, URL])
        attempts = self.rng.randint(1, 3)
        task_id = self.calls.create(
            self.rng.randint(3, 8),
            queue=self.rng.choice(QUEUES),
            max_attempts=attempts,
            webhook=webhook,
            **options,
        )
        self.shared.add([task_id], [])

    def claim(self) -> None:
        queues = self.rng.sample(QUEUES, self.rng.randint(1, 3))
        leases = self.calls.claim(self.rng.randint(1, 15), lease=self.rng.choice([0, 0, 60]), queues=queues)
        self.shared.add([], leases)

    def complete(self) -> None:
        reports = [self.report(lease) for lease in self.some_leases()]
        if reports:
            self.shared.note(reports, self.calls.complete(*reports))

    def report(self, lease: Lease) -> Report:
        if self.rng.random() < 0.6:
            return success(lease)
        return failure(lease, retryable=self.rng.random() < 0.6, retry_after=self.rng.choice([0, 0.05, None]))

    def heartbeat(self) -> None:
        if leases := self.some_leases():
            self.calls.heartbeat(*leases, seconds=self.rng.choice([0, 1]))

    def release(self) -> None:
        if leases := self.some_leases():
            self.calls.release(*leases)

    def send(self) -> None:
        sent = self.calls.claim_deliveries(10, lease=self.rng.choice([0, 30]), host_limit=20)
        self.rng.shuffle(sent)
        if sent:
            settles: list[Callable[..., object]] = [self.calls.settle, self.calls.give_up, self.calls.put_off]
            settle = self.rng.choice([*settles, self.calls.release_deliveries])
            settle(*sent)

    def look(self) -> None:
        self.calls.stats()
        self.calls.tasks(self.rng.choice([None, "running", "failed"]), 5)
        self.calls.rows("SELECT * FROM rvq.list_events('0', 0, 5)")


@pytest.fixture
def rvq(database: Database) -> Calls:
    return Calls(database.main)


@pytest.mark.parametrize("resets", [False, True], ids=["without_resets", "with_resets"])
def test_everything_at_once_costs_no_deadlock_no_error_and_no_outcome(
    database: Database, rvq: Calls, resets: bool
) -> None:
    print(f"RVQ_ADVERSARIAL_SEED={SEED}")  # shown when it fails
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = rvq.value(deadlocks)
    shared = Shared()
    clients = [Client(Calls(database.connect()), shared, number, resets) for number in range(CLIENTS)]
    until = time.monotonic() + SECONDS
    with ThreadPoolExecutor(CLIENTS) as executor:
        done = [future.result() for future in [executor.submit(client.run, until) for client in clients]]
    assert len(sum(done, Counter())) == len(clients[0].operations), "some operation was never tried"
    rvq.rows("SELECT pg_stat_force_next_flush()")
    assert rvq.value(deadlocks) == before
    assert_counters_are_true(rvq)
    assert_every_end_has_one_event(rvq)
    if not resets:
        assert_every_stored_report_is_there_once(rvq, shared)
    finish(rvq)
    assert_every_end_has_one_event(rvq)
    assert_counters_are_true(rvq)
    assert rvq.value("SELECT count(*) FROM rvq.open_sub_tasks") == 0
    assert rvq.sweep(0, 10**6) == (None, 0)


def assert_counters_are_true(rvq: Calls) -> None:
    assert rvq.rows("SELECT queue, counter, counted, truth FROM rvq.audit() WHERE counted <> truth") == []


def assert_every_end_has_one_event(rvq: Calls) -> None:
    """Runs count from 0 without a gap, the last is open or has its event; nothing is open of what ended."""
    wrong = rvq.rows(
        """
        SELECT t.id, o.run, e.runs FROM rvq.tasks AS t LEFT JOIN rvq.open_tasks AS o USING (id)
          LEFT JOIN (SELECT rvq.task_of(id) AS id, array_agg((id & 16383)::integer ORDER BY id) AS runs
                       FROM rvq.events GROUP BY 1) AS e USING (id)
         WHERE coalesce(e.runs, '{}') <> ARRAY(
                   SELECT generate_series(0, coalesce(o.run - 1, cardinality(e.runs) - 1)))
            OR (o.id IS NULL AND e.id IS NULL)"""
    )
    assert wrong == []
    left = rvq.rows(
        "SELECT s.id FROM rvq.open_sub_tasks AS s LEFT JOIN rvq.open_tasks AS t ON t.id = rvq.task_of(s.id)"
        " WHERE t.id IS NULL"
    )
    assert left == []
    sql = "SELECT id FROM rvq.open_sub_tasks WHERE (status = 'claimed') <> (lease_expires_at IS NOT NULL)"
    assert rvq.rows(sql) == []
    told = rvq.rows(
        """
        SELECT e.id FROM rvq.events AS e JOIN rvq.tasks AS t ON t.id = rvq.task_of(e.id)
         WHERE e.succeeded + e.failed + e.cancelled <> t.total"""
    )
    assert told == []


def assert_every_stored_report_is_there_once(rvq: Calls, shared: Shared) -> None:
    stored = rvq.rows("SELECT lease_token::text FROM rvq.outcomes WHERE lease_token IS NOT NULL")
    assert Counter(shared.tokens) == Counter(row[0] for row in stored)
    twice = rvq.rows("SELECT id FROM rvq.outcomes WHERE status = 'succeeded' GROUP BY id HAVING count(*) > 1")
    assert twice == []
    assert shared.stored["unknown"] == 0
    assert shared.stored["succeeded"] > 0
    assert shared.stored["duplicate"] > 0


def finish(rvq: Calls) -> None:
    for (task_id,) in rvq.rows("SELECT id FROM rvq.open_tasks ORDER BY id"):
        rvq.cancel(task_id)
