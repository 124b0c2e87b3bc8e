"""The driver processes of one system for one turn: a producer, workers, a receiver."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.child import Child, Line, Lines, next_line

READY_SECONDS = 60.0
REPLY_SECONDS = 300.0
Command = Sequence[str | Path]


@dataclass
class Crew:
    """`commands`: by name; the one named `producer` is told what to do. A context manager."""

    system: str
    commands: Mapping[str, Command]
    environ: Mapping[str, str]
    logs: Path
    versions: dict[str, str] = field(default_factory=dict)
    _children: dict[str, Child] = field(default_factory=dict)
    _lines: Lines = field(default_factory=lambda: Lines())
    _replies: list[Line] = field(default_factory=list)
    _called: dict[str, float] = field(default_factory=dict)
    _done: list[tuple[float, int]] = field(default_factory=list)
    _tasks: int = 0

    def __enter__(self) -> Crew:
        try:
            for name, command in self.commands.items():
                title, log = f"{self.system}'s {name}", self.logs / f"{self.system}-{name}.log"
                self._children[name] = Child(title, command, self.environ, log, self._lines)
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children.values():
            child.stop()

    def throughput(self, sub_tasks: int) -> float:
        """Return sub_tasks a second, from the first enqueue to the last completion. Raises DriverError."""
        self._done.clear()
        reply = self._ask(do="throughput", count=sub_tasks)
        ended = reply.get("ended") or self._when_done(sub_tasks)
        return sub_tasks / (float(ended) - float(reply["began"]))

    def fan_in(self, sub_tasks: int) -> float:
        """Return seconds from the start of the enqueue to the callback of one task. Raises DriverError."""
        self._tasks += 1
        reply = self._ask(do="fan_in", task=self._tasks, sub_tasks=sub_tasks)
        task, began = str(reply["task"]), float(reply["began"])
        self._hear_until(lambda: task in self._called)
        return self._called.pop(task) - began

    def single_calls(self, calls: int) -> dict[str, float]:
        """Return calls a second by name. Raises DriverError."""
        return {n: float(rate) for n, rate in self._ask(do="single_calls", count=calls)["rates"].items()}

    def wait_until_ended(self, seconds: float) -> None:
        """Wait until all end by themselves. Raises DriverError."""
        for child in self._children.values():
            child.wait(seconds)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        waiting = set(self._children.values())
        while waiting:
            child, line = next_line(self._lines, deadline)
            if line.get("ready"):
                waiting.discard(child)
                self.versions.update(line["versions"])

    def _ask(self, **command: object) -> Line:
        self._replies.clear()
        self._children["producer"].tell(**command)
        self._hear_until(lambda: bool(self._replies))
        return self._replies.pop()

    def _when_done(self, sub_tasks: int) -> float:
        self._hear_until(lambda: sum(count for _, count in self._done) >= sub_tasks)
        return max(at for at, _ in self._done)

    def _hear_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + REPLY_SECONDS
        while not condition():
            self._take(next_line(self._lines, deadline)[1])

    def _take(self, line: Line) -> None:
        if "called" in line:
            self._called[str(line["called"])] = float(line["at"])
        elif "done" in line:
            self._done.append((float(line["at"]), int(line["done"])))
        else:
            self._replies.append(line)
