"""The two scenes: every behaviour at once, and a black hole with a crowd of hosts that drip."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.hostile import ALL, Behaviour
from bench.hostile.findings import Finding, Row, judge_delivery, judge_lags
from bench.hostile.healthy import QUEUE, HealthyHost, Traffic, wait_for
from bench.hostile.receivers import Listeners
from bench.hostile.stage import Stage
from rvq.errors import CommandError

# Seconds beyond the deadline in which a first attempt must be in the ledger: its turn, and its record.
PATIENCE = 30.0
WARM_UP = 100
HEALTHY = "healthy"
BLACK_HOLE, DRIPPING = "black-hole", 32
TO_THE_BLACK_HOLE, TO_EACH_DRIPPING = 1000, 10


def crowd() -> dict[str, Behaviour]:
    """A host that takes every request and never answers, and the hosts that drip."""
    drips = ("drip-headers", "drip-continues", "drip-status-line", "drip-body-of-a-failure")
    dripping = {f"dripping-{n}": ALL[drips[n % len(drips)]] for n in range(DRIPPING)}
    return {BLACK_HOLE: ALL["silent"], **dripping}


@dataclass
class Play:
    """What both scenes are played with. `rate`: tasks a second for the healthy host."""

    stage: Stage
    listeners: Listeners
    host: HealthyHost
    rate: float

    def warm_up(self) -> None:
        """The dispatcher has its threads, connections and caches before anything is measured."""
        self.stage.client().finish([self.listeners.urls[HEALTHY]] * WARM_UP, QUEUE)
        if not wait_for(lambda: len(self.host.lags.seconds) >= WARM_UP, PATIENCE):
            raise CommandError("the healthy host did not get its first webhooks")
        self.host.lags.seconds.clear()

    def traffic(self) -> Traffic:
        self.host.lags.seconds.clear()
        return Traffic(self.stage.client(), self.listeners.urls[HEALTHY], self.rate)

    def lags(self, name: str, traffic: Traffic) -> Finding:
        """Once everything has arrived, or should have."""
        if traffic.failure is not None:
            raise CommandError(f"the healthy host's traffic stopped: {traffic.failure}")
        wait_for(lambda: len(self.host.lags.seconds) >= traffic.sent, PATIENCE)
        return judge_lags(name, self.host.lags, traffic.sent)


def every_behaviour(
    play: Play, behaviours: Mapping[str, Behaviour], deadline: float
) -> tuple[list[Row], Finding]:
    """One delivery to each, all at once, while the healthy host has its own."""
    client = play.stage.client()
    with play.traffic() as traffic:
        ids = client.finish([play.listeners.urls[name] for name in behaviours], "hostile")
        waiting = dict(zip(behaviours, ids, strict=True))
        found: dict[str, dict[str, Any]] = {}
        give_up = time.monotonic() + deadline + PATIENCE
        while waiting and time.monotonic() < give_up:
            for name, task_id in list(waiting.items()):
                (delivery,) = client.deliveries(task_id)
                if delivery["attempts"]:
                    found[name] = delivery
                    del waiting[name]
            time.sleep(0.5)
    rows = [judge_delivery(name, each, found.get(name), deadline) for name, each in behaviours.items()]
    return rows, play.lags("healthy host", traffic)


def black_hole_and_drips(play: Play, seconds: float) -> Finding:
    """A thousand deliveries to one that swallows, and 32 that drip, for that long."""
    client, urls = play.stage.client(), play.listeners.urls
    client.finish([urls[BLACK_HOLE]] * TO_THE_BLACK_HOLE, "crowd")
    for name in crowd():
        if name != BLACK_HOLE:
            client.finish([urls[name]] * TO_EACH_DRIPPING, "crowd")
    with play.traffic() as traffic:
        time.sleep(seconds)
    return play.lags("healthy host beside 1 000 to a black hole and 32 dripping hosts", traffic)
