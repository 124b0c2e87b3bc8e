"""Two dispatchers, one or the other killed at random moments: no event is lost, and no attempt unrecorded.

RVQ_KILLS (10) says how often; `make kills` does it 200 times. A failure tells its seed for RVQ_KILLS_SEED.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
from collections import Counter

import pytest

from rvq.embedded import Cluster
from tests.dispatcher.receiver import Received, Receiver
from tests.dispatcher.rig import SECRET, Dispatcher, Tasks, environment, event_id, launched
from tests.support.concurrency import wait_until

KILLS = int(os.environ.get("RVQ_KILLS", "10"))
SEED = int(os.environ.get("RVQ_KILLS_SEED", str(random.randrange(2**32))))
TASKS_A_KILL = 30
# Longer than a lease: what the dead one held is due again.
CLOCK_STEP = 31


def has_received(receiver: Receiver, count: int) -> bool:
    return len(receiver.received) >= count


@pytest.mark.slow
def test_two_dispatchers_killed_at_random_moments_lose_no_event_and_no_attempt(own_cluster: Cluster) -> None:
    print(f"RVQ_KILLS_SEED={SEED}")
    tasks = Tasks(own_cluster.url("rvq"))
    chance = random.Random(SEED)
    ids: list[int] = []
    with Receiver() as receiver, contextlib.ExitStack() as stack:
        environ = environment(own_cluster.url("rvq"), receiver.host)
        start = functools.partial(_start, stack, environ)
        pair = [start(), start()]
        for kill in range(1, KILLS + 1):
            # Half of the time right away: it may be starting, claiming or idle.
            enough = len(receiver.received) + chance.choice([0, chance.randrange(1, TASKS_A_KILL - 5)])
            ids += tasks.finish(receiver.url(), TASKS_A_KILL)
            wait_until(functools.partial(has_received, receiver, enough), "some were received", 60)
            victim = chance.randrange(2)
            pair[victim].kill()
            own_cluster.move_clock(kill * CLOCK_STEP)
            pair[victim] = start()
        tasks.wait_until_done(120)
        received = list(receiver.received)
    check(tasks, ids, received)


def check(tasks: Tasks, ids: list[int], received: list[Received]) -> None:
    """Every event arrived whole, repetitions only under its own id, and the ledger tells each attempt."""
    times = Counter(one.id for one in received)
    bodies = {(one.id, one.body) for one in received}
    assert set(times) == {event_id(number) for number in ids}
    assert len(bodies) == len(ids)
    for one in received:
        one.verify(SECRET)
    attempts = 0
    for number in ids:
        ledger = tasks.ledger(number)
        attempts += len(ledger)
        assert [attempt for attempt, _, _ in ledger] == list(range(1, len(ledger) + 1))
        assert [outcome for _, outcome, _ in ledger] == ["unknown"] * (len(ledger) - 1) + ["delivered"]
        # What was received was an attempt; an attempt that was cut short may not have been received.
        assert times[event_id(number)] <= len(ledger)
    print(f"{KILLS} kills, {len(ids)} events, {len(received)} received, {attempts} attempts in the ledger")


def _start(stack: contextlib.ExitStack, environ: dict[str, str]) -> Dispatcher:
    """Not waited for: it may be killed before it is ready."""
    return stack.enter_context(launched(environ))
