"""What every driver shares: lines of JSON on standard input and output, and the payload.

Runs under the peers' own interpreter too, so it needs the standard library alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

PAYLOAD_BYTES = 200
BATCH = 1000  # sub_tasks enqueued at once
CHECK_SECONDS = 0.02  # between two looks whether everything is done
# Without fan-in of its own: a row counts down in each handler, the last one enqueues the callback.
COUNTERS = "CREATE TABLE fan_in (task bigint PRIMARY KEY, left_over int NOT NULL) WITH (fillfactor = 50)"
Command = dict[str, Any]
Payload = dict[str, object]
T = TypeVar("T")
_saying = threading.Lock()


def say(**fields: object) -> None:
    """Write one line to the runner; any thread may."""
    line = json.dumps(fields) + "\n"
    with _saying:
        sys.stdout.write(line)
        sys.stdout.flush()


def say_ready(*packages: str) -> None:
    say(ready=True, versions={name: version(name) for name in packages})


def say_called(task: object) -> None:
    """Tell that the callback of a task runs now."""
    say(called=str(task), at=time.time())


class Tally:
    """Counts what is done and says so fifty times a second; a line each would cost more than the work."""

    def __init__(self) -> None:
        self._count = 0
        self._at = 0.0
        self._lock = threading.Lock()
        threading.Thread(target=self._tell, name="tally", daemon=True).start()

    def add(self, count: int) -> None:
        with self._lock:
            self._count += count
            self._at = time.time()

    def _tell(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            with self._lock:
                count, self._count = self._count, 0
            if count:
                say(done=count, at=self._at)


def payload(number: int) -> Payload:
    """Return a document of PAYLOAD_BYTES as JSON."""
    empty = len(json.dumps({"number": number, "text": ""}))
    return {"number": number, "text": "x" * (PAYLOAD_BYTES - empty)}


def chosen_role(roles: Mapping[str, T]) -> T:
    """Return what the command line's first word names; all but a producer end with their input."""
    if sys.argv[1] not in ("install", "produce"):
        end_with_input()
    return roles[sys.argv[1]]


def end_with_input() -> None:
    """End this process when the runner closes our standard input, or dies."""

    def watch() -> None:
        # Not by sys.stdin: its lock would be held in every process that this one forks.
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="end-with-input", daemon=True).start()


def serve(does: Mapping[str, Callable[[Command], None]]) -> None:
    """Carry out commands by their name in `do`, one after the other, to the end of the input."""
    say_ready()
    for line in sys.stdin:
        command = json.loads(line)
        does[command["do"]](command)


async def serve_producer(
    enqueue: Callable[[list[Payload]], Awaitable[None]],
    is_empty: Callable[[], Awaitable[bool]],
    fan_out: Callable[[int, list[Payload]], Awaitable[None]],
) -> None:
    """Carry out the commands to a producer whose system is in PostgreSQL; `fan_out` counts them down too."""

    async def throughput(command: Command) -> None:
        began = time.time()
        for numbers in slices(command["count"], BATCH):
            await enqueue([payload(number) for number in numbers])
        while not await is_empty():
            await asyncio.sleep(CHECK_SECONDS)
        say(began=began, ended=time.time(), count=command["count"])

    async def fan_in(command: Command) -> None:
        task, began = command["task"], time.time()
        await fan_out(task, [{"task": task, **payload(number)} for number in range(command["sub_tasks"])])
        say(began=began, task=str(task))

    say_ready()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        await {"throughput": throughput, "fan_in": fan_in}[command["do"]](command)


def slices(count: int, most: int) -> list[range]:
    """Return 0..count in ranges of at most `most`."""
    return [range(start, min(start + most, count)) for start in range(0, count, most)]
