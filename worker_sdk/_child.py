"""A process that runs handlers, one at a time, and belongs to one slot.

The parent sends a Claimed with its deadline (run it), STOP (stop the current one) or None (exit). The child
sends READY or the text of a failed setup once, then an Outcome or None for each Claimed. A broken pipe means
that the other side is gone: the child exits at once, so a killed worker leaves no orphans behind.
"""

import multiprocessing
import multiprocessing.connection
import os
import queue
import signal
import threading
import time
import traceback
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from ._leases import Lease
from ._logs import Logs, configure_logs, current_logs
from ._options import HandlerLike
from ._outcome import Outcome, failure, perform
from ._sub_task import Claimed, SubTask

READY = "ready"
STOP = "stop"
LOOK_SECONDS = 0.1  # how often the slot checks whether its sub_task was cancelled
STUBBORN_SECONDS = 5.0  # how long a handler that was told to stop may go on before it is killed

# Spawned, not forked: the worker has threads, and a fork would copy locks that they hold.
_context = multiprocessing.get_context("spawn")
_spawning = threading.Lock()


class SetupFailed(Exception):
    """A handler's `setup` raised, or its process died before it was ready."""


class Child:
    """The parent's side of the process. All methods but `kill` are called by one thread at a time."""

    def __init__(self, handler: type[HandlerLike]) -> None:
        self._handler = handler
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None

    def spawn(self) -> None:
        """Start the process; `wait_until_ready` waits for it."""
        with _spawning:
            self._pipe, far_end = _context.Pipe()
            self._process = _context.Process(
                target=serve, args=(far_end, self._handler, current_logs()), name="rvq-child"
            )
            self._process.start()
        far_end.close()

    def wait_until_ready(self) -> None:
        """Wait until the handler is set up. Raises SetupFailed."""
        assert self._pipe is not None
        try:
            message = self._pipe.recv()
        except (EOFError, OSError):
            message = f"the handler's process died while it started ({self._death()})"
        if message != READY:
            raise SetupFailed(message)

    def perform(self, lease: Lease) -> Outcome | None:
        """Run one sub_task (see Executor). If the process dies, the next call starts a new one."""
        if self._process is None:
            self.spawn()
            self.wait_until_ready()
        try:
            return self._converse(lease)
        except (EOFError, OSError):
            death = self._death()
            self.kill()
            if lease.cancelled.is_set():
                return None
            return failure(
                f"the handler's process died: {death}", "ProcessDied", retryable=True, code="process_died"
            )

    def close(self) -> None:
        if self._pipe is None or self._process is None:
            return
        try:
            self._pipe.send(None)
            self._process.join(STUBBORN_SECONDS)
        except OSError:
            pass  # it is gone already
        self.kill()

    def kill(self) -> None:
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()

    def _converse(self, lease: Lease) -> Outcome | None:
        """Send the work and wait for its outcome. Raises EOFError or OSError when the process dies."""
        pipe, process = self._pipe, self._process
        assert pipe is not None
        assert process is not None
        pipe.send((lease.claimed, lease.deadline))
        told_at: float | None = None
        while not pipe.poll(LOOK_SECONDS):
            # A process that the handler forked may hold the pipe open, so check for death as well.
            if not process.is_alive() and not pipe.poll():
                raise EOFError
            if lease.cancelled.is_set() and told_at is None:
                pipe.send(STOP)
                told_at = time.monotonic()
            elif told_at is not None and time.monotonic() - told_at > STUBBORN_SECONDS:
                process.kill()
        outcome = pipe.recv()
        assert outcome is None or isinstance(outcome, Outcome)
        return outcome

    def _death(self) -> str:
        """Return how the process ended."""
        if self._process is None:
            return "killed"
        self._process.join(STUBBORN_SECONDS)
        code = self._process.exitcode
        return (
            f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"
        )


def serve(pipe: Connection, handler: type[HandlerLike], logs: Logs | None) -> None:
    """Run the child's side: the main thread runs handlers, another thread reads the pipe."""
    # The worker decides when running work ends, also when a signal went to the whole process group. Not
    # SIG_IGN: programs that a handler starts would inherit that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    if logs is not None:
        configure_logs(logs)
    try:
        instance = handler()
        instance.setup()
    except BaseException:
        pipe.send(f"setup failed: {traceback.format_exc()}")
        return
    inbox = _Inbox(pipe)
    pipe.send(READY)
    while (work := inbox.work.get()) is not None:
        claimed, deadline, cancelled = work
        pipe.send(perform(instance.handle, SubTask.from_claim(claimed, deadline, cancelled)))
    instance.teardown()


class _Inbox:
    """A thread that reads the pipe while the handler runs."""

    def __init__(self, pipe: Connection) -> None:
        self.work: queue.SimpleQueue[tuple[Claimed, float | None, threading.Event] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe: Connection) -> None:
        cancelled = threading.Event()
        try:
            while (message := pipe.recv()) is not None:
                if message == STOP:
                    cancelled.set()
                else:
                    # Made here, so that a STOP right behind its work finds the right event.
                    cancelled = threading.Event()
                    self.work.put((*message, cancelled))
        except (EOFError, OSError):
            os._exit(1)
        self.work.put(None)
