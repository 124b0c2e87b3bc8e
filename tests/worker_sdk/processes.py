"""Workers as real processes: start them, hear what their handlers say, send signals."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.worker_sdk.api import PATIENCE, ScriptedAPI

ROOT = Path(__file__).parents[2]


class Process:
    def __init__(
        self, api: ScriptedAPI, handler: str, *options: str, module: str = "handlers", shell: str = ""
    ) -> None:
        command = [sys.executable, "-m", "worker_sdk", f"tests.worker_sdk.{module}:{handler}", *options]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *command] if shell else command,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **api.environ},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, word: str) -> list[str]:
        """Return the words of the next line that starts with this one."""
        for line in _pipe(self._process.stdout):
            words = line.decode().split()
            if words[0] == word:
                return words
        raise AssertionError(f"it ended without {word!r}: {self.errors()}")

    def say(self, line: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def signal_group(self, number: int) -> None:
        os.killpg(self.pid, number)

    def exit_status(self) -> int:
        return self._process.wait(PATIENCE)

    def output(self) -> str:
        return _pipe(self._process.stdout).read().decode()

    def errors(self) -> str:
        return _pipe(self._process.stderr).read().decode()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.signal_group(9)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def is_gone(pid: int) -> bool:
    """Whether the process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
