"""The slots in which handlers run: each is a thread, which may have a process of its own."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from ._completer import Completer
from ._leases import Lease, Leases, Reason
from ._logs import logger
from ._options import HandlerLike, Options
from ._outcome import Outcome, failure, perform
from ._process.child import Child, SetupFailed
from ._process.fork import OneProcess


class Executor(Protocol):
    """What runs the handlers of one slot."""

    def perform(self, lease: Lease) -> Outcome | None:
        """Run the handler to its end. Return None when it stopped on request. Raises SetupFailed."""

    def close(self) -> None:
        """Shut down in good order; called when nothing runs any more."""

    def kill(self) -> None:
        """Shut down at once, whatever runs."""


class InThread:
    """An executor that runs the handler in the slot's own thread; a thread can't be killed."""

    def __init__(self, handler: HandlerLike) -> None:
        self._handler = handler

    def perform(self, lease: Lease) -> Outcome | None:
        return perform(self._handler.handle, lease.sub_task())

    def close(self) -> None: ...

    def kill(self) -> None: ...


class Slot:
    """A slot takes a lease, runs its sub_task, hands on the outcome, and starts over."""

    def __init__(
        self,
        executor: Executor,
        leases: Leases,
        completer: Completer,
        on_ended: Callable[[float], None],
        on_free: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._leases = leases
        self._completer = completer
        self._on_ended = on_ended
        self._on_free = on_free

    def step(self) -> bool:
        """Wait for one sub_task and run it. Return False when none will come. Raises SetupFailed."""
        lease = self._leases.take()
        if lease is None:
            return False
        begun = time.monotonic()
        try:
            outcome = self._executor.perform(lease)
        except BaseException:
            self._leases.stopped(lease)
            raise
        self._end(lease, outcome, time.monotonic() - begun)
        self._on_free()
        return True

    def _end(self, lease: Lease, outcome: Outcome | None, seconds: float) -> None:
        if outcome is None and lease.reason is None:
            outcome = failure("the handler stopped, and nobody had told it to", "Cancelled", retryable=True)
        elif outcome is None and lease.reason is Reason.TIMEOUT:
            outcome = failure(
                f"ran out of time after {seconds:.1f} s", "TimedOut", retryable=True, code="timed_out"
            )
        if outcome is not None:
            self._on_ended(seconds)
            self._completer.put(lease, outcome)
        elif lease.reason is Reason.SHUTDOWN:
            self._leases.stopped(lease)
        else:
            self._leases.drop(lease)
        logger.debug(
            "sub_task %s ran for %.3f s",
            lease.id,
            seconds,
            extra={"sub_task_id": lease.id, "attempt": lease.claimed.attempt, "seconds": seconds},
        )


class Slots:
    """All slots of a worker.

    `on_ended` is called with the seconds of each run that has an outcome, `on_free` when a slot has become
    free, `on_fatal` with the reason when a slot cannot go on.
    """

    def __init__(
        self,
        handler: type[HandlerLike],
        options: Options,
        leases: Leases,
        completer: Completer,
        *,
        on_ended: Callable[[float], None],
        on_free: Callable[[], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self._handler = handler
        self._options = options
        self._shared = (leases, completer, on_ended, on_free)
        self._on_fatal = on_fatal
        self._instance: HandlerLike | None = None
        self._executors: list[Executor] = []

    def start(self) -> None:
        """Set up every executor, then start every slot. Raises whatever `setup` raises, or SetupFailed."""
        self._executors = self._in_processes() if self._options.executor == "process" else self._in_threads()
        for number, executor in enumerate(self._executors):
            slot = Slot(executor, *self._shared)
            threading.Thread(target=self._run, args=(slot,), name=f"rvq-slot-{number}", daemon=True).start()

    def close(self) -> None:
        """Tear the handlers down; called when nothing runs any more."""
        for executor in self._executors:
            executor.close()
        if self._instance is not None:
            with OneProcess():
                self._instance.teardown()

    def kill(self) -> None:
        for executor in self._executors:
            executor.kill()

    def _in_threads(self) -> list[Executor]:
        with OneProcess():
            self._instance = self._handler()
            self._instance.setup()
        return [InThread(self._instance) for _ in range(self._options.concurrency)]

    def _in_processes(self) -> list[Executor]:
        children = [Child(self._handler) for _ in range(self._options.concurrency)]
        try:
            for child in children:
                child.spawn()
            for child in children:
                child.wait_until_ready()
        except BaseException:
            for child in children:
                child.kill()
            raise
        return list(children)

    def _run(self, slot: Slot) -> None:
        try:
            while slot.step():
                pass
        except SetupFailed as error:
            self._on_fatal(str(error))
        except BaseException as error:  # the SDK's own bug: better to stop than to lose a slot silently
            logger.exception("a slot failed")
            self._on_fatal(f"a slot failed: {error}")
