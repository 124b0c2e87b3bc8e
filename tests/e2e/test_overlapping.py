"""16 clients over HTTP, overlapping shuffled batches of everything: no deadlock, no 5xx, every count right.

RVQ_FAULTS_SECONDS makes it longer (`make faults`); a failure tells its seed for RVQ_FAULTS_SEED.
"""

from __future__ import annotations

import http.client
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

from rvq.embedded import Cluster
from tests.dispatcher.receiver import Receiver
from tests.e2e.rig import ENDED, Response, Rvq, ask, running
from tests.e2e.test_life_of_processes import is_drained
from tests.support.concurrency import wait_until
from tests.support.database import Database

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("RVQ_FAULTS_SECONDS", "5"))
SEED = int(os.environ.get("RVQ_FAULTS_SEED", str(random.randrange(2**32))))
CLIENTS = 16
QUEUES = ["a", "b"]
COMPLETIONS: list[dict[str, object]] = [
    {"policy": "all"},
    {"policy": "all", "deadline_seconds": 1},
    {"policy": "fail_fast"},
    {"policy": "at_least", "count": 2},
    {"policy": "at_least", "count": 3, "deadline_seconds": 2},
]


@dataclass
class Shared:
    """What all clients know of, for everybody to meddle with, and what they were told."""

    url: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    tasks: list[str] = field(default_factory=list)
    recent: list[dict[str, str]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    effective: Counter[tuple[str, str]] = field(default_factory=Counter)


class Client:
    """One kept connection and its own sequence of choices."""

    def __init__(self, rvq: Rvq, shared: Shared, number: int) -> None:
        self.rvq, self.shared = rvq, shared
        self.rng = random.Random(SEED + number)
        self.connection = http.client.HTTPConnection(rvq.bind, timeout=60)
        self.operations: list[tuple[int, Callable[[], None]]] = [
            (5, self.create),
            (10, self.claim),
            (14, self.complete),
            (4, self.heartbeat),
            (4, self.release),
            (3, self.cancel),
            (2, self.retry),
            (1, self.look),
        ]

    def run(self, until: float) -> None:
        operations, weights = [call for _, call in self.operations], [weight for weight, _ in self.operations]
        while time.monotonic() < until:
            self.rng.choices(operations, weights)[0]()
        self.connection.close()

    def call(self, method: str, path: str, body: object = None, audience: str = "WORKER") -> Response:
        response = ask(self.connection, method, path, body, self.rvq.headers(audience))
        with self.shared.lock:
            self.shared.statuses[response.status] += 1
        return response

    def create(self) -> None:
        body = {
            "queue": self.rng.choice(QUEUES),
            "sub_tasks": [{"payload": n} for n in range(self.rng.randint(3, 8))],
            "completion": self.rng.choice(COMPLETIONS),
            "max_attempts": self.rng.randint(1, 3),
            "webhook_url": self.rng.choice([None, self.shared.url]),
        }
        task_id = self.call("POST", "/v1/tasks", body, "PARTNER").expect(201)["id"]
        with self.shared.lock:
            self.shared.tasks.append(task_id)

    def claim(self) -> None:
        body = {
            "worker_id": "w",
            "queues": self.rng.sample(QUEUES, self.rng.randint(1, 2)),
            "limit": self.rng.randint(1, 15),
            "lease_seconds": self.rng.choice([1, 1, 60]),
        }
        leases = self.call("POST", "/v1/sub_tasks/claim", body).expect(200)["sub_tasks"]
        named = [{"id": one["id"], "lease_token": one["lease_token"]} for one in leases]
        with self.shared.lock:
            self.shared.recent = (self.shared.recent + named)[-300:]

    def complete(self) -> None:
        results = [{**lease, **self.outcome()} for lease in self.some_leases()]
        told = self.batch("complete", "results", results)
        with self.shared.lock:
            for sent, outcome in zip(results, told, strict=True):
                self.shared.outcomes[outcome] += 1
                if outcome in ("succeeded", "failed", "retrying"):
                    self.shared.effective[str(sent["id"]), str(sent["lease_token"])] += 1

    def outcome(self) -> dict[str, object]:
        if self.rng.random() < 0.6:
            return {"status": "succeeded", "result": self.rng.random()}
        again = {"retryable": self.rng.random() < 0.6, "retry_after_seconds": self.rng.choice([0, 0.05])}
        return {"status": "failed", "error": {"message": "no", **again}}

    def heartbeat(self) -> None:
        self.batch("heartbeat", "leases", self.some_leases(), lease_seconds=1)

    def release(self) -> None:
        self.batch("release", "leases", self.some_leases())

    def batch(self, verb: str, name: str, items: list[Any], **fields: object) -> list[str]:
        if not items:
            return []
        response = self.call("POST", f"/v1/sub_tasks/{verb}", {"worker_id": "w", name: items, **fields})
        return [one["outcome"] for one in response.expect(200)["results"]]

    def cancel(self) -> None:
        if task_id := self.some_task():
            self.call("POST", f"/v1/tasks/{task_id}/cancel", audience="PARTNER").expect(200, 409)

    def retry(self) -> None:
        if task_id := self.some_task():
            response = self.call("POST", f"/v1/admin/tasks/{task_id}/retry", audience="ADMIN")
            response.expect(200, 409)
            with self.shared.lock:
                self.shared.retried[task_id] += response.status == 200

    def look(self) -> None:
        self.call("GET", "/v1/stats", audience="PARTNER").expect(200)
        self.call("GET", "/v1/tasks?status=running&limit=5", audience="PARTNER").expect(200)
        self.call("GET", "/v1/events?limit=5", audience="PARTNER").expect(200)

    def some_leases(self) -> list[dict[str, str]]:
        """Of anybody, in any order, some twice."""
        with self.shared.lock:
            known = self.shared.recent
        return [self.rng.choice(known) for _ in range(self.rng.randint(1, 25))] if known else []

    def some_task(self) -> str | None:
        with self.shared.lock:
            known = self.shared.tasks[-60:]
        return self.rng.choice(known) if known else None


def test_overlapping_batches_cost_no_deadlock_no_error_and_no_event(
    own_cluster: Cluster, receiver: Receiver
) -> None:
    print(f"RVQ_FAULTS_SEED={SEED}")  # shown when it fails
    with running(own_cluster.url("rvq"), receiver.host, APP_DB_POOL="32") as rvq:
        rvq.start_dispatcher()
        shared = Shared(receiver.url())
        until = time.monotonic() + SECONDS
        clients = [Client(rvq, shared, number) for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as executor:
            running_clients = [executor.submit(client.run, until) for client in clients]
        assert_no_deadlock(own_cluster)
        for ended in running_clients:
            ended.result()
        assert set(shared.statuses) <= {200, 201, 409}
        assert set(shared.outcomes) >= {"succeeded", "failed", "retrying", "duplicate", "stale"}
        assert set(shared.effective.values()) == {1}
        finish(rvq, shared)
        check_every_end_has_one_event(rvq, shared)
        assert rvq.admin("GET", "audit")["drift"] == 0
    assert_no_deadlock(own_cluster)


def assert_no_deadlock(cluster: Cluster) -> None:
    """By the server's own log, which also says who waited for whom, and by its counter."""
    log = cluster.log.read_text(errors="replace")
    found = log.find("deadlock detected")
    assert found < 0, log[max(0, found - 200) : found + 6000]
    database = Database(cluster.url("rvq"))
    try:
        assert database.value("SELECT deadlocks FROM pg_stat_database WHERE datname = 'rvq'") == 0
    finally:
        database.close()


def finish(rvq: Rvq, shared: Shared) -> None:
    for task_id in shared.tasks:
        if rvq.task(task_id)["status"] not in ENDED:
            rvq.call("POST", f"/v1/tasks/{task_id}/cancel").expect(200, 409)
    wait_until(lambda: is_drained(rvq), "every webhook is sent", 60)


def check_every_end_has_one_event(rvq: Rvq, shared: Shared) -> None:
    """One for each end: the first, and one more for each time that an admin reopened it."""
    events = Counter(event["data"]["task_id"] for event in rvq.pages("/v1/events"))
    assert events == {task_id: 1 + shared.retried[task_id] for task_id in shared.tasks}
