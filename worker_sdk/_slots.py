"""The places where handlers run: a thread each, which may have a process of its own."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ._child import Child, SetupFailed
from ._completer import Completer
from ._handler import Handler, Options
from ._leases import Lease, Leases, Reason
from ._outcome import Outcome, failure, perform
from ._pace import Pace
from ._sub_task import SubTask

logger = logging.getLogger("worker_sdk")


class Executor(Protocol):
    """Where one slot's handlers run."""

    def perform(self, lease: Lease) -> Outcome | None:
        """Run it to its end; None when it stopped because it was told to. Raises SetupFailed."""

    def close(self) -> None:
        """Nothing runs any more: let it go, in good order."""

    def kill(self) -> None:
        """Let it go at once, whatever runs."""


class InThread:
    """Runs the handler in the slot's own thread; a thread cannot be killed."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def perform(self, lease: Lease) -> Outcome | None:
        return perform(self._handler, SubTask.from_claim(lease.claimed, lease.deadline, lease.cancelled))

    def close(self) -> None: ...

    def kill(self) -> None: ...


class Slot:
    """Takes a lease, runs it, hands on the outcome; again and again."""

    def __init__(
        self,
        executor: Executor,
        leases: Leases,
        completer: Completer,
        pace: Pace,
        on_free: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._leases = leases
        self._completer = completer
        self._pace = pace
        self._on_free = on_free

    def step(self, *, wait: bool = True) -> bool:
        """Run one sub_task; False when there was none (with `wait`: none will come). Raises SetupFailed."""
        lease = self._leases.take(wait)
        if lease is None:
            return False
        begun = time.monotonic()
        self._end(lease, self._executor.perform(lease), time.monotonic() - begun)
        self._on_free()
        return True

    def _end(self, lease: Lease, outcome: Outcome | None, seconds: float) -> None:
        if outcome is None and lease.reason is Reason.TIMEOUT:
            outcome = failure(
                f"ran out of time after {seconds:.1f} s", "TimedOut", retryable=True, code="timed_out"
            )
        if outcome is not None:
            self._pace.ended(seconds)
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
    """All slots of a worker. `on_fatal` hears when a slot cannot go on."""

    def __init__(
        self,
        handler: type[Handler],
        options: Options,
        leases: Leases,
        completer: Completer,
        pace: Pace,
        *,
        on_free: Callable[[], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self._handler = handler
        self._options = options
        self._shared = (leases, completer, pace, on_free)
        self._on_fatal = on_fatal
        self._instance: Handler | None = None
        self._executors: list[Executor] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Set up every executor, then start every slot. Raises whatever `setup` raises, or SetupFailed."""
        self._executors = self._in_processes() if self._options.executor == "process" else self._in_threads()
        for number, executor in enumerate(self._executors):
            slot = Slot(executor, *self._shared)
            thread = threading.Thread(target=self._run, args=(slot,), name=f"rvq-slot-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Call it when nothing runs any more: teardown."""
        for executor in self._executors:
            executor.close()
        if self._instance is not None:
            self._instance.teardown()

    def kill(self) -> None:
        for executor in self._executors:
            executor.kill()

    def _in_threads(self) -> list[Executor]:
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
        except Exception as error:  # the SDK's own bug: better to stop than to lose a slot silently
            logger.exception("a slot failed")
            self._on_fatal(f"a slot failed: {error}")
