"""The two runs: every behaviour at once, and a black hole with a crowd of hosts that drip."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.background import in_background
from bench.checks import Check
from bench.hostile import ALL, Behaviour
from bench.hostile.checks import FirstAttempt, check_delivery, check_lags
from bench.hostile.healthy import QUEUE, HealthyHost, Traffic
from bench.hostile.receivers import Listeners
from bench.hostile.tasks import Tasks
from rvq.errors import CommandError
from rvq.local.stack import LocalStack
from rvq.waiting import wait_until

# Seconds beyond the deadline in which a first attempt must be in the ledger: its turn, and its record.
PATIENCE = 30.0
WARM_UP = 100
HEALTHY = "healthy"
BLACK_HOLE, DRIPPING = "black-hole", 32
TO_THE_BLACK_HOLE, TO_EACH_DRIPPING = 1000, 10


def crowd() -> dict[str, Behaviour]:
    """Return a host that takes every request and never responds, and the hosts that drip."""
    drips = ("drip-headers", "drip-continues", "drip-status-line", "drip-body-of-a-failure")
    dripping = {f"dripping-{n}": ALL[drips[n % len(drips)]] for n in range(DRIPPING)}
    return {BLACK_HOLE: ALL["silent"], **dripping}


@dataclass
class Suite:
    """What both runs need; `rate` is tasks a second for the healthy host."""

    rvq: LocalStack
    listeners: Listeners
    host: HealthyHost
    rate: float

    def warm_up(self) -> None:
        """Let the dispatcher have its threads, connections and caches before anything is measured."""
        self.tasks().finish([self.listeners.urls[HEALTHY]] * WARM_UP, QUEUE)
        if not wait_until(lambda: len(self.host.lags) >= WARM_UP, PATIENCE):
            raise CommandError("the healthy host did not get its first webhooks")
        self.host.lags.clear()

    def tasks(self) -> Tasks:
        return Tasks(self.rvq)

    def traffic(self) -> Traffic:
        self.host.lags.clear()
        return Traffic(self.tasks(), self.listeners.urls[HEALTHY], self.rate)

    def lags(self, name: str, traffic: Traffic) -> Check:
        """Wait until everything has arrived, or should have, and check how late it was."""
        if traffic.failure is not None:
            raise CommandError(f"the healthy host's traffic stopped: {traffic.failure}")
        wait_until(lambda: len(self.host.lags) >= traffic.sent, PATIENCE)
        return check_lags(name, self.host.lags, traffic.sent)


def every_behaviour(
    suite: Suite, behaviours: Mapping[str, Behaviour], deadline: float
) -> tuple[list[FirstAttempt], Check]:
    """Send one delivery to each, all at once, while the healthy host has its own."""
    tasks = suite.tasks()
    traffic = suite.traffic()
    with in_background(traffic.run):
        ids = tasks.finish([suite.listeners.urls[name] for name in behaviours], "hostile")
        waiting = dict(zip(behaviours, ids, strict=True))
        found: dict[str, dict[str, Any]] = {}
        give_up = time.monotonic() + deadline + PATIENCE
        while waiting and time.monotonic() < give_up:
            for name, task_id in list(waiting.items()):
                (delivery,) = tasks.deliveries(task_id)
                if delivery["attempts"]:
                    found[name] = delivery
                    del waiting[name]
            time.sleep(0.5)
    attempts = [check_delivery(name, each, found.get(name), deadline) for name, each in behaviours.items()]
    return attempts, suite.lags("healthy host", traffic)


def black_hole_and_drips(suite: Suite, seconds: float) -> Check:
    """Send a thousand deliveries to one that swallows, and to 32 that drip, for that long."""
    tasks, urls = suite.tasks(), suite.listeners.urls
    for name in crowd():
        tasks.finish([urls[name]] * (TO_THE_BLACK_HOLE if name == BLACK_HOLE else TO_EACH_DRIPPING), "crowd")
    traffic = suite.traffic()
    with in_background(traffic.run):
        time.sleep(seconds)
    return suite.lags("healthy host beside 1 000 to a black hole and 32 dripping hosts", traffic)
