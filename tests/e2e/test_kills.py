"""Processes are killed at random while partners and workers go on; afterwards every promise is checked.

RVQ_FAULTS_SECONDS makes it longer (`make faults`); a failure tells its seed for RVQ_FAULTS_SEED.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rvq.embedded import Cluster
from rvq.local.processes import Process
from tests.dispatcher.receiver import Receiver
from tests.e2e.recorded import Partners, last_word, note_webhooks
from tests.e2e.rig import Rvq, running
from tests.e2e.test_life_of_processes import children, is_drained
from tests.support.database import Database
from tests.support.history import Recorder, faults, read

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("RVQ_FAULTS_SECONDS", "6"))
SEED = int(os.environ.get("RVQ_FAULTS_SEED", str(random.randrange(2**32))))
DRAIN_SECONDS = 120.0


@pytest.fixture
def rvq(own_cluster: Cluster, receiver: Receiver) -> Iterator[Rvq]:
    with running(own_cluster.url("rvq"), receiver.host) as rvq:
        yield rvq


@dataclass
class Killer:
    """Two dispatchers, three workers, an API: one of them is killed now and then, and started again."""

    rvq: Rvq
    rng: random.Random
    dispatchers: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.dispatchers = [self.rvq.start_dispatcher() for _ in range(2)]
        self.workers = [self.new_worker() for _ in range(3)]

    def new_worker(self) -> Process:
        file = self.rvq.folder / f"worker-{len(list(self.rvq.folder.iterdir()))}.history"
        return self.rvq.run_worker("tests.e2e.recording_worker", str(file))

    def kill_one(self) -> None:
        choices: list[tuple[int, Callable[[], None]]] = [
            (4, self.kill_api_process),
            (1, self.kill_api),
            (4, self.kill_worker),
            (3, self.kill_dispatcher),
        ]
        (victim,) = self.rng.choices([kill for _, kill in choices], [weight for weight, _ in choices])
        self.kills.append(victim.__name__)
        victim()

    def kill_api_process(self) -> None:
        """One of those that serve; Gunicorn starts another."""
        with suppress(ProcessLookupError):
            os.kill(self.rng.choice(sorted(children(self.rvq.api))), signal.SIGKILL)

    def kill_api(self) -> None:
        self.rvq.kill_api()
        self.rvq.start_api()

    def kill_worker(self) -> None:
        self.workers.pop(self.rng.randrange(len(self.workers))).kill()
        self.workers.append(self.new_worker())

    def kill_dispatcher(self) -> None:
        self.dispatchers.pop(self.rng.randrange(len(self.dispatchers))).kill()
        self.dispatchers.append(self.rvq.start_dispatcher())


def test_kills_at_random_lose_nothing_and_double_nothing(
    rvq: Rvq, own_cluster: Cluster, receiver: Receiver
) -> None:
    print(f"RVQ_FAULTS_SEED={SEED}")  # shown when it fails
    killer = Killer(rvq, random.Random(SEED))
    killer.start()
    partners = Partners(rvq, 3, receiver.url())
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(killer.rng.uniform(0.05, 0.6))
        killer.kill_one()
    partners.stop()
    drain(rvq, own_cluster)
    assert partners.refused == []
    assert killer.kills
    note_webhooks(rvq, receiver.received)
    history, final = read(rvq.folder.glob("*.history")), last_word(rvq)
    assert len(final.tasks) == partners.taken > 0
    assert faults(history, final) == []
    assert_counters_and_deadlocks(own_cluster)


def drain(rvq: Rvq, cluster: Cluster) -> None:
    """Until all is done. Leases of what was killed run out faster when the clock is put ahead."""
    clock = Recorder(Path(rvq.folder / "clock.history"))
    ahead, looked = 0.0, time.monotonic()
    give_up = looked + DRAIN_SECONDS
    while not is_drained(rvq):
        assert time.monotonic() < give_up, rvq.call("GET", "/v1/stats").body
        if time.monotonic() - looked > 2:
            ahead, looked = ahead + 30, time.monotonic()
            put_ahead(clock, cluster, ahead)
        time.sleep(0.05)


def put_ahead(clock: Recorder, cluster: Cluster, seconds: float) -> None:
    def move() -> tuple[int, None]:
        cluster.move_clock(seconds)
        return 200, None

    clock.call("clock", {"seconds": seconds}, move)


def assert_counters_and_deadlocks(cluster: Cluster) -> None:
    database = Database(cluster.url("rvq"))
    try:
        assert database.drift() == []
        assert database.value("SELECT deadlocks FROM pg_stat_database WHERE datname = 'rvq'") == 0
    finally:
        database.close()
