"""A guard and its runner, as the worker sees them."""

import contextlib
import fcntl
import multiprocessing.spawn
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from signal import Signals

from . import guard
from .fork import share_again, unshare
from .messages import MAX_BYTES, READY, Garbled, frame, frames

LOOK_SECONDS = 0.1  # how often the slot checks whether its sub_task was cancelled
CLEAN_UP_SECONDS = 5.0  # how long a runner may live without its pipe: it ends, and has to clean up
END_SECONDS = guard.END_SECONDS + 2.0  # how long the guard may take to end everything
ABOVE_STANDARD = 3  # file descriptors below are stdin, stdout and stderr, even where those are closed


class Died(Exception):
    """The process is gone; the text says how."""


class Process:
    """A guard and its runner, with the pipe to the runner and the lifeline to the guard."""

    def __init__(self, path: list[str], loads: list[bytes]) -> None:
        self._pipe, runner_end = _pair()
        self._lifeline, guard_end = _pair()
        with runner_end, guard_end:
            ends = (runner_end.fileno(), guard_end.fileno())
            self._guard = subprocess.Popen(
                _command(path, *ends), pass_fds=ends, stdin=subprocess.DEVNULL, start_new_session=True
            )
        unshare(self)
        self._told = bytearray()  # by the guard
        self._received = bytearray()
        self._messages: deque[tuple[bytes, bytes]] = deque()
        self._outgoing = bytearray()
        self._ended_at: float | None = None  # when the runner closed its end of the pipe
        for data in loads:
            self.send(frame(READY, data))

    def send(self, data: bytes) -> None:
        """Have this sent by the next exchanges: a runner that is stopped or busy in C reads nothing."""
        self._outgoing += data

    def receive(self, seconds: float = float("inf")) -> tuple[bytes, bytes]:
        """Return the next message. Raises Died, also when none came in time, or Garbled."""
        ends_at = time.monotonic() + seconds
        while (message := self.exchange(min(LOOK_SECONDS, seconds))) is None:
            if time.monotonic() > ends_at:
                raise Died("it did not answer")
        return message

    def exchange(self, seconds: float) -> tuple[bytes, bytes] | None:
        """Send and receive for so long. Return the first message or None. Raises Died or Garbled."""
        if self._messages:
            return self._messages.popleft()
        poll = select.poll()
        poll.register(self._lifeline, select.POLLIN)
        if self._ended_at is None:
            poll.register(self._pipe, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        ready = dict(poll.poll(seconds * 1000))
        dead = self._lifeline.fileno() in ready and self._hear_the_guard()
        if self._pipe.fileno() in ready or dead:
            self._write()
            self._read()
        if self._messages:
            return self._messages.popleft()
        if dead or (self._ended_at is not None and time.monotonic() - self._ended_at > CLEAN_UP_SECONDS):
            raise Died(self._death())
        return None

    def is_quiet(self) -> bool:
        """Whether it lives, and has said nothing that nobody asked for."""
        try:
            return self.exchange(0) is None and not self._received and self._ended_at is None
        except (Died, Garbled):
            return False

    def kill(self) -> None:
        """End the runner and all that it started. Any thread may call this, also while others wait here."""
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)
        try:
            self._guard.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the runner dies of this, too
            self._guard.wait()

    def close(self) -> None:
        share_again(self)
        self.left_behind()

    def left_behind(self) -> None:
        """Close both sockets. In a fork, too: the guard would not see that the worker died."""
        self._pipe.close()
        self._lifeline.close()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # not now, or the reading end is gone
            sent = self._pipe.send(self._outgoing)
            del self._outgoing[:sent]

    def _read(self) -> None:
        """Read all that has arrived."""
        try:
            while data := self._pipe.recv(1 << 16):
                self._received += data
            self._ended_at = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:
            self._ended_at = time.monotonic()
        self._messages.extend(frames(self._received, MAX_BYTES))

    def _hear_the_guard(self) -> bool:
        """Read what the guard tells. Return whether its runner is dead."""
        try:
            told = self._lifeline.recv(1 << 10)
        except BlockingIOError:
            return False
        except OSError:
            return True
        self._told += told
        return not told or self._told.count(b"\n") > 1

    def _death(self) -> str:
        """Return how the runner ended; one that lives on without its pipe is ended first."""
        self.kill()
        while not self._hear_the_guard():
            pass
        _, _, told = self._told.partition(b"\n")
        if not told.endswith(b"\n"):
            return "its guard was killed"
        code = int(told)
        return f"signal {_signal_name(-code)}" if code < 0 else f"exit status {code}"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)


def _command(path: list[str], pipe: int, lifeline: int) -> list[str]:
    """Return the command line of a guard: it loads its own file, and in the runner the SDK."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    code = (
        f"import sys; sys.path[:] = {path!r}; import runpy\n"
        "def run(pipe):\n"
        "    from worker_sdk._process.runner import serve\n"
        "    serve(pipe)\n"
        f"runpy.run_path({str(Path(guard.__file__).absolute())!r})['main']({pipe}, {lifeline}, run)"
    )
    return [os.fsdecode(multiprocessing.spawn.get_executable() or sys.executable), *flags, "-c", code]


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return a non-blocking socket and a blocking one, neither in the place of a standard stream."""
    near, far = (_moved(one) for one in socket.socketpair())
    near.setblocking(False)
    far.setblocking(True)
    return near, far


def _moved(one: socket.socket) -> socket.socket:
    with one:
        return socket.socket(fileno=fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, ABOVE_STANDARD))
