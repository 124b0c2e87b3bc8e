"""The runner: a process that runs handlers, one at a time, for one slot of the worker.

Its main thread runs handlers, and another one reads the pipe. When the pipe ends, the worker is gone, and the
runner exits at once.
"""

import multiprocessing
import multiprocessing.spawn
import os
import pickle
import queue
import socket
import threading
import traceback

from .._logs import configure_logs, logger
from .._options import HandlerLike
from .._outcome import perform
from .._sub_task import Claimed, SubTask
from .fork import OneProcess
from .messages import FAILED, QUIT, READY, STOP, answer, frame, frames
from .signals import SignalHandlers
from .state import State, Stuck

MAX_BYTES_HERE = 1 << 31  # a payload is as long as it is

Work = tuple[Claimed, float | None, threading.Event]


def serve(pipe_fd: int) -> None:
    """Load the handler that the worker names, and run it until the worker says QUIT."""
    # The worker decides when running work ends, also when a signal went to all processes. Not SIG_IGN:
    # programs that a handler starts would inherit that.
    deaf = SignalHandlers(lambda *_: None)  # kept, or forks would not know of it
    deaf.install()
    pipe = Pipe(pipe_fd)
    inbox = Inbox(pipe)
    try:
        instance = _load(inbox)
        with OneProcess():
            instance.setup()
        state = State()
    except BaseException:
        pipe.send(frame(FAILED, f"setup failed: {traceback.format_exc()}".encode("utf-8", "replace")))
        return
    pipe.send(frame(READY))
    _work(pipe, inbox, instance, state)


def _load(inbox: "Inbox") -> HandlerLike:
    """Prepare this process as multiprocessing does for one that it spawns, and make the handler."""
    current = multiprocessing.current_process()
    # A script that starts a worker when it is imported is told so, by multiprocessing.
    setattr(current, "_inheriting", True)  # noqa: B010  it is no public name
    multiprocessing.spawn.prepare(pickle.loads(inbox.loads.get()))
    handler, logs = pickle.loads(inbox.loads.get())
    delattr(current, "_inheriting")
    if logs is not None:
        configure_logs(logs)
    with OneProcess():
        instance: HandlerLike = handler()
    return instance


def _work(pipe: "Pipe", inbox: "Inbox", instance: HandlerLike, state: State) -> None:
    while (work := inbox.work.get()) is not None:
        claimed, deadline, cancelled = work
        outcome = perform(instance.handle, SubTask.from_claim(claimed, deadline, cancelled))
        try:
            state.put_back()
        except Stuck as error:
            logger.warning("this process ends, another one goes on: %s", error)
            pipe.send(answer(claimed.lease_token, outcome))
            return
        pipe.send(answer(claimed.lease_token, outcome))
    with OneProcess():
        instance.teardown()


class Pipe:
    """The runner's end of the pipe. A fork can't use it; a file that got its number is not taken for it."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._pid = os.getpid()
        self._identity = self._look()

    def send(self, data: bytes) -> None:
        if os.getpid() != self._pid:
            os._exit(1)
        if self._look() != self._identity:
            os.write(2, b"the handler closed the pipe to its worker\n")
            os._exit(1)
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """Return some bytes, none at the end of the pipe."""
        return self._socket.recv(1 << 16)

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.fstat(self._socket.fileno())
        except OSError:
            return None
        return status.st_dev, status.st_ino


class Inbox:
    """A thread that reads the pipe, also while the handler runs."""

    def __init__(self, pipe: Pipe) -> None:
        self.loads: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        """What to prepare, and what to load."""
        self.work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._pipe = pipe
        self._cancelled = threading.Event()
        threading.Thread(target=self._read, name="rvq-inbox", daemon=True).start()

    def _read(self) -> None:
        received = bytearray()
        try:
            while data := self._pipe.receive():
                received += data
                for kind, body in frames(received, MAX_BYTES_HERE):
                    self._take(kind, body)
        except BaseException:
            traceback.print_exc()
        os._exit(1)

    def _take(self, kind: bytes, body: bytes) -> None:
        if kind == STOP:
            self._cancelled.set()
        elif kind == QUIT:
            self.work.put(None)
        elif kind == READY:
            self.loads.put(body)
        else:
            # Made here, so that a STOP right behind its work finds the right event.
            self._cancelled = threading.Event()
            self.work.put((*pickle.loads(body), self._cancelled))
