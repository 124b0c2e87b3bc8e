"""The worker's side of a runner: start it, talk to it, end it."""

import contextlib
import multiprocessing.spawn
import pickle
import time

from .._leases import Lease, Reason
from .._logs import current_logs
from .._options import HandlerLike
from .._outcome import Outcome, failure
from .messages import FAILED, QUIT, READY, STOP, WORK, Garbled, frame, outcome_of
from .process import LOOK_SECONDS, Died, Process

STUBBORN_SECONDS = 5.0  # how long a handler that was told to stop may go on before it is killed


class SetupFailed(Exception):
    """A handler's `setup` raised, or its process died before it was ready."""


class Child:
    """The process of one slot. All methods but `kill` are called by one thread at a time."""

    def __init__(self, handler: type[HandlerLike]) -> None:
        self._handler = handler
        self._process: Process | None = None

    def spawn(self) -> None:
        """Start the process; `wait_until_ready` waits for it."""
        prepared = multiprocessing.spawn.get_preparation_data("rvq-child")
        prepared["authkey"] = bytes(prepared["authkey"])  # its own type refuses to be pickled
        loads = [pickle.dumps(prepared), pickle.dumps((self._handler, current_logs()))]
        self._process = Process(prepared["sys_path"], loads)

    def wait_until_ready(self) -> None:
        """Wait until the handler is set up. Raises SetupFailed."""
        assert self._process is not None
        try:
            kind, data = self._process.receive()
        except (Died, Garbled) as error:
            kind, data = FAILED, f"the handler's process died while it started ({error})".encode()
        if kind != READY:
            self._discard()
            raise SetupFailed(data.decode("utf-8", "replace"))

    def perform(self, lease: Lease) -> Outcome | None:
        """Run one sub_task (see Executor). If the process died, a new one is started first."""
        if self._process is not None and not self._process.is_quiet():
            # It died, or something wrote to the pipe, while nothing ran: no fault of this sub_task.
            self._discard()
        if self._process is None:
            self.spawn()
            self.wait_until_ready()
        try:
            return self._converse(lease)
        except (Died, Garbled) as error:
            self._discard()
            if lease.cancelled.is_set():
                return None
            return failure(
                f"the handler's process died: {error}", "ProcessDied", retryable=True, code="process_died"
            )

    def close(self) -> None:
        """Let the handler tear down, and end the process."""
        process = self._process
        if process is not None:
            process.send(frame(QUIT))
            with contextlib.suppress(Died, Garbled):
                process.receive(STUBBORN_SECONDS)
        self._discard()

    def kill(self) -> None:
        """End the process and all that it started. Any thread may call this."""
        process = self._process
        if process is not None:
            process.kill()

    def _converse(self, lease: Lease) -> Outcome | None:
        """Send the work and wait for its outcome. Raises Died or Garbled."""
        process = self._process
        assert process is not None
        process.send(frame(WORK, pickle.dumps((lease.claimed, lease.deadline))))
        told = False
        stop_by = float("inf")
        while (message := process.exchange(LOOK_SECONDS)) is None:
            if lease.cancelled.is_set() and not told:
                process.send(frame(STOP))
                told = True
            if stop_by == float("inf"):
                stop_by = _stop_by(lease)
            if time.monotonic() > stop_by:
                raise Died("it was told to stop and did not")
        return outcome_of(*message, lease.token)

    def _discard(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.close()


def _stop_by(lease: Lease) -> float:
    """Return when a handler that goes on is killed."""
    # A lease that only may be gone may turn out to be held: then the result still counts.
    if lease.reason in (None, Reason.EXPIRED):
        return float("inf")
    patience = time.monotonic() + STUBBORN_SECONDS
    # Out of time, the lease is not extended any more. At its end another worker may begin.
    return min(patience, lease.expires) if lease.reason is Reason.TIMEOUT else patience
