"""A driver is a process that takes commands and says things, a line of JSON each."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Lines = queue.Queue["tuple[Child, Line | None]"]  # None: it said its last
STOP_SECONDS = 10.0


class DriverError(Exception):
    """A driver did not start, ended too early or did not answer; the text has the end of its log."""


class Child:
    """Started at once. What it says goes to `lines`, what it complains about to `log`.

    It ends when its input does: so it never outlives us, however we end.
    """

    def __init__(
        self, name: str, command: Sequence[str | Path], environ: Mapping[str, str], log: Path, lines: Lines
    ) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, args=(lines,), name=name, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, **command: object) -> None:
        """Send it a command. Raises DriverError."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self.error("ended") from None

    def wait(self, seconds: float) -> None:
        """Wait until it ends by itself, with status 0. Raises DriverError."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self.error(f"still runs after {seconds:g} s") from None
        if status:
            raise self.error(f"ended with status {status}")

    def stop(self) -> None:
        """Close its input; at the deadline send SIGKILL, to what it started too."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def error(self, what: str) -> DriverError:
        words = self._log.read_text(errors="replace").splitlines()[-8:]
        return DriverError("\n".join([f"{self.name} {what}", *words]))

    def _listen(self, lines: Lines) -> None:
        assert self._process.stdout
        for text in self._process.stdout:
            with contextlib.suppress(ValueError):  # a library that prints
                line = json.loads(text)
                if isinstance(line, dict):
                    lines.put((self, line))
        lines.put((self, None))


def next_line(lines: Lines, deadline: float) -> tuple[Child, Line]:
    """Return the next line of any of them, until `deadline` (time.monotonic()). Raises DriverError."""
    try:
        child, line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise DriverError("no driver said anything in time") from None
    if line is None:
        raise child.error("ended too early")
    return child, line
