"""Child processes: each is started, waited for until it is ready, and stopped by pid within a deadline.

A child is in a process group of its own, so a terminal's Ctrl-C reaches only us and we stop children in
order. When we are killed, a guard stops them: nothing is left running.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rvq.waiting import wait_until


class ProcessError(Exception):
    """A process did not start, or ended too early; the text has the end of its output."""


class Process:
    """One running child. Its output goes to `log`, or where ours goes when None.

    With `notify` it is told NOTIFY_SOCKET, as by systemd, and `wait_until_notified()` waits for READY=1.
    It keeps `pass_fds` open: a lock held through one lasts as long as any such child.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        environ: Mapping[str, str],
        *,
        log: Path | None = None,
        notify: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        self._notifications = _NotifySocket() if notify else None
        told = {"NOTIFY_SOCKET": self._notifications.path} if self._notifications else {}
        with open(log, "ab") if log else contextlib.nullcontext() as output:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                env={**environ, **told},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output and subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        self._guard = _guard(self._child.pid, self._notifications.folder if self._notifications else "")

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """Return the exit status (negative: the signal that ended it); None while it runs."""
        return self._child.poll()

    def wait_until(self, ready: Callable[[], bool], deadline_seconds: float) -> None:
        """Ask `ready` until it holds. Raises ProcessError when the process ends or time is up."""
        in_time = wait_until(lambda: self.returncode is not None or ready(), deadline_seconds)
        if self.returncode is not None:
            raise ProcessError(f"{self.name} ended with status {self.returncode}{self._last_words()}")
        if not in_time:
            raise ProcessError(f"{self.name} was not ready in {deadline_seconds:g} s{self._last_words()}")

    def wait_until_notified(self, deadline_seconds: float) -> None:
        """Wait until it has said READY=1; only for a process that was started with `notify`."""
        assert self._notifications, f"{self.name} was started without notify"
        self.wait_until(self._notifications.is_ready, deadline_seconds)

    def wait(self, deadline_seconds: float) -> int:
        """Wait until it ends by itself; return the exit status. Raises ProcessError when time is up."""
        try:
            return self._child.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.name} still runs after {deadline_seconds:g} s") from None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, not to its children; do nothing when it has ended."""
        if self.returncode is None:
            self._child.send_signal(number)

    def stop(self, deadline_seconds: float = 30) -> int:
        """Send SIGTERM, at the deadline SIGKILL (to children left behind too); return the exit status."""
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(deadline_seconds)
        self.kill()
        if self._guard.returncode is None:
            self._guard.communicate(b"stopped\n")
        if self._notifications:
            self._notifications.close()
        return self._child.returncode

    def kill(self) -> None:
        """Send SIGKILL to the process and all its children, as the kernel's out-of-memory killer does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()

    def _last_words(self) -> str:
        if self.log is None:
            return ""
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return f"; the end of {self.log}:\n" + "\n".join(lines)


class _NotifySocket:
    """The service manager's end of systemd's readiness protocol: datagrams of NAME=VALUE lines.

    A thread reads them to the end, since a process that reports its status for days must not find the
    socket full.
    """

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="rvq-notify-")
        self.path = f"{self.folder}/socket"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._ready = threading.Event()
        threading.Thread(target=self._take, name="notify", daemon=True).start()

    def is_ready(self) -> bool:
        return self._ready.is_set()

    def close(self) -> None:
        """End the thread; the guard deletes the folder."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _take(self) -> None:
        with self._socket:
            while datagram := self._socket.recv(4096):
                if b"READY=1" in datagram.split(b"\n"):
                    self._ready.set()


def _guard(group: int, folder: str) -> subprocess.Popen[bytes]:
    """Start a process that stops the group when its standard input closes without a word, as when we die.

    In any case it deletes `folder`, if there is one.
    """
    script = 'read _ || kill -s TERM -- "-$1"; test -z "$2" || rm -rf "$2"'
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", str(group), folder],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
