"""The host that does nothing wrong: how late its webhooks are while others misbehave."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime

from bench.hostile.peer import Peer
from bench.hostile.tasks import Tasks

QUEUE = "healthy"


class HealthyHost:
    """`serve` is its behaviour; `lags` are the seconds from each event's timestamp to its arrival.

    Both clocks that a lag is made of are this machine's.
    """

    def __init__(self) -> None:
        self.lags: list[float] = []

    def serve(self, peer: Peer) -> None:
        while request := peer.request():
            arrived = time.time()
            peer.answer()
            body = json.loads(request.partition(b"\r\n\r\n")[2])
            self.lags.append(arrived - datetime.fromisoformat(body["timestamp"]).timestamp())


class Traffic:
    """Ends a task for the healthy host every 1/`rate` seconds."""

    def __init__(self, tasks: Tasks, url: str, rate: float) -> None:
        self._tasks = tasks
        self._url = url
        self._pause = 1 / rate
        self.sent = 0
        self.failure: Exception | None = None

    def run(self, stopping: threading.Event) -> None:
        due = time.monotonic()
        while not stopping.wait(max(0.0, due - time.monotonic())):
            due += self._pause
            try:
                self._tasks.finish([self._url], QUEUE)
            except Exception as error:  # told by whoever asks
                self.failure = error
                return
            self.sent += 1
