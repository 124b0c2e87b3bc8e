"""Child processes of ours: started, waited for until ready, stopped by pid within a deadline.

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
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

POLL_SECONDS = 0.02


class ProcessError(Exception):
    """A process did not start, or ended too early; the text has the end of its output."""


class Process:
    """One running child. Its output goes to `log`, or where ours goes when None.

    With `notify` it is told NOTIFY_SOCKET, as by systemd, and `wait_until_notified()` waits for READY=1.
    `pass_fds` are kept open in it: a lock held through one lasts as long as any such child.
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
        """The exit status (negative: the signal that ended it); None while it runs."""
        return self._child.poll()

    def wait_until(self, ready: Callable[[], bool], deadline_seconds: float) -> None:
        """Ask `ready` until it says so. Raises ProcessError when the process ends or time is up."""
        give_up = time.monotonic() + deadline_seconds
        while not ready():
            if self.returncode is not None:
                raise ProcessError(f"{self.name} ended with status {self.returncode}{self._last_words()}")
            if time.monotonic() > give_up:
                raise ProcessError(f"{self.name} was not ready in {deadline_seconds:g} s{self._last_words()}")
            time.sleep(POLL_SECONDS)

    def wait_until_notified(self, deadline_seconds: float) -> None:
        """Until it said READY=1. Only for a process that was started with `notify`."""
        assert self._notifications, f"{self.name} was started without notify"
        self.wait_until(self._notifications.is_ready, deadline_seconds)

    def wait(self, deadline_seconds: float) -> int:
        """Its exit status, once it ends by itself. Raises ProcessError when time is up."""
        try:
            return self._child.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.name} still runs after {deadline_seconds:g} s") from None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, not to its children. Nothing happens when it has ended."""
        if self.returncode is None:
            self._child.send_signal(number)

    def stop(self, deadline_seconds: float = 30) -> int:
        """SIGTERM, and at the deadline SIGKILL; children it left behind go too. Returns the exit status."""
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
        """SIGKILL to the process and all its children, as by the kernel's out-of-memory killer."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()

    def _last_words(self) -> str:
        if self.log is None:
            return ""
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return f"; the end of {self.log}:\n" + "\n".join(lines)


class _NotifySocket:
    """Our end of systemd's readiness protocol: datagrams of NAME=VALUE lines.

    A thread takes them to the end, since a process that reports its status for days must not find the
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
        """Ends the thread; the guard deletes the folder."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _take(self) -> None:
        with self._socket:
            while datagram := self._socket.recv(4096):
                if b"READY=1" in datagram.split(b"\n"):
                    self._ready.set()


def _guard(group: int, folder: str) -> subprocess.Popen[bytes]:
    """A process that stops the group when our end of its pipe closes unsaid, as it does when we die.

    In any case it deletes `folder`, if there is one.
    """
    script = 'read _ || kill -s TERM -- "-$1"; test -z "$2" || rm -rf "$2"'
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", str(group), folder],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
