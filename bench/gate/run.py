"""One run of the load, inside locust: warm-up, window, drain."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from bench.gate import bodies
from bench.gate.measured import Measured, stream_figures, webhook_figures
from bench.gate.profile import Profile
from bench.gate.stream import Stream
from bench.gate.target import Target
from bench.gate.users import KINDS, StreamUser, Work, sleep_until

POLL_SECONDS = 0.1
# Until the users are there.
HEAD_START_SECONDS = 1.0


class Run:
    """`sleep` is gevent's. Times of ticks are of time.perf_counter(), those of webhooks are Unix seconds."""

    def __init__(self, profile: Profile, target: Target, sleep: Callable[[float], object]) -> None:
        load = profile.load
        self.profile = profile
        self.target = target
        self._sleep = sleep
        self._webhooks_before = target.webhooks_in_all()
        self._wall = time.time() - time.perf_counter()
        start = time.perf_counter() + HEAD_START_SECONDS
        self.window = (start + load.warmup, start + load.warmup + load.duration)
        ends = {"create": self.window[1], "claim": float("inf"), "complete": float("inf")}
        self.streams = {name: Stream(name, load.rate, load.in_flight, start, ends[name]) for name in KINDS}
        self.work = Work(
            bodies.create_bodies(load.sub_tasks, load.payload_bytes, target.webhook_url),
            itertools.cycle(bodies.documents(load.payload_bytes, seed=2)),
        )

    @property
    def wall_window(self) -> tuple[float, float]:
        return self.window[0] + self._wall, self.window[1] + self._wall

    def user(self, stream_name: str, number: int) -> StreamUser:
        kind = KINDS[stream_name]
        name = f"gate-{stream_name}-{number}"
        return kind(self.streams[stream_name], self.work, self.target, self.profile.load, name, self._sleep)

    def measure(self) -> None:
        """Wait through warm-up and window, then until all that was created has come back, or time is up."""
        sleep_until(self.window[0], self._sleep)
        self.target.reset_receiver(self.wall_window[0])
        sleep_until(self.window[1], self._sleep)
        give_up = self.window[1] + self.profile.load.drain
        while time.perf_counter() < give_up and not self._enough_came_back():
            self._sleep(POLL_SECONDS)
        while time.perf_counter() < give_up and self._not_come_back():
            self._sleep(POLL_SECONDS * 10)
        for stream in self.streams.values():
            stream.stop()
            stream.close()

    def result(self, exceptions: Sequence[str]) -> Measured:
        return Measured(
            {name: stream_figures(stream, self.window) for name, stream in self.streams.items()},
            webhook_figures(self.target.received(), self._created_in_window(), self.wall_window),
            exceptions,
        )

    def stories_of_lost(self, most: int = 3) -> list[str]:
        """Return what the API says of tasks of the window whose webhook did not come. Raises TargetError."""
        lost, parts = self._not_come_back()[:most], ("", "/sub_tasks", "/deliveries")
        paths = [f"/v1/tasks/{task_id}{part}" for task_id in lost for part in parts]
        return [f"lost: {path}: {self.target.read_as_partner(path)[:1500]}" for path in paths]

    def _created_in_window(self) -> list[str]:
        low, high = self.window
        return [task_id for task_id, due in self.work.created.items() if low <= due < high]

    def _enough_came_back(self) -> bool:
        """Ask what is cheap to ask, though what an earlier run left behind may come too."""
        return self.target.webhooks_in_all() - self._webhooks_before >= len(self.work.created)

    def _not_come_back(self) -> list[str]:
        came = set(self.target.received().task_ids)
        return [task_id for task_id in self._created_in_window() if task_id not in came]
