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
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

PAYLOAD_BYTES = 200
CHECK_SECONDS = 0.02  # between two looks whether everything is done
Command = dict[str, Any]
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


def say_drained(began: float, count: int) -> None:
    say(began=began, ended=time.time(), count=count)


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


def payload(number: int) -> dict[str, object]:
    """Return a document of PAYLOAD_BYTES as JSON."""
    empty = len(json.dumps({"number": number, "text": ""}))
    return {"number": number, "text": "x" * (PAYLOAD_BYTES - empty)}


def next_command() -> Command | None:
    """Read the runner's next command; None when there will be none."""
    line = sys.stdin.readline()
    return dict(json.loads(line)) if line else None


def end_with_input() -> None:
    """End this process when the runner closes our standard input, or dies."""

    def watch() -> None:
        # Not by sys.stdin: its lock would be held in every process that this one forks.
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="end-with-input", daemon=True).start()


async def serve(does: dict[str, Callable[[Command], Awaitable[None]]]) -> None:
    """Carry out commands by their name in `do`, one after the other, to the end of the input."""
    loop = asyncio.get_running_loop()
    while (command := await loop.run_in_executor(None, next_command)) is not None:
        await does[command["do"]](command)


def slices(count: int, most: int) -> list[range]:
    """Return 0..count in ranges of at most `most`."""
    return [range(start, min(start + most, count)) for start in range(0, count, most)]
