"""The class that users subclass."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from ._run import run_to_exit
from ._sub_task import SubTask


class Handler:
    """The base class of handlers: set the class attributes that differ, write `handle`, call `run()`.

    With `executor = "thread"` one instance serves all threads, so `handle` must be thread-safe. With
    "process" each of `concurrency` processes has its own instance; a crash costs one attempt only, and
    a handler that does not stop when told to is killed.
    """

    queue: ClassVar[str] = "default"
    queues: ClassVar[Sequence[str]] = ()
    """Several queues in order of preference; `queue` is then ignored."""
    concurrency: ClassVar[int] = 4
    """How many sub_tasks are handled at the same time."""
    executor: ClassVar[Literal["thread", "process"]] = "thread"
    lease_seconds: ClassVar[int] = 60
    """How soon RVQ gives the work to another worker when this one dies; heartbeats extend it."""
    timeout_seconds: ClassVar[float | None] = None
    """How long one attempt may take. After that its lease is not extended any more."""
    prefetch: ClassVar[int] = 100
    """How many sub_tasks may wait here for a free slot; never more than `prefetch_seconds` of work."""
    prefetch_seconds: ClassVar[float] = 1.0
    poll_seconds: ClassVar[tuple[float, float]] = (0.05, 2.0)
    """The shortest and the longest pause between claims while the queue is empty."""
    grace_seconds: ClassVar[float] = 20.0
    """How long running sub_tasks may go on after SIGTERM."""
    flush_seconds: ClassVar[float] = 10.0
    """How long delivering the last results may take after that."""

    def setup(self) -> None:
        """Prepare an instance: called once, before the first `handle`. An exception stops the worker."""

    @abstractmethod
    def handle(self, sub_task: SubTask) -> Any:
        """Do the work and return a JSON value, or `Raw`/bytes that are JSON already.

        Raise `Retry` or `Fail` to end it otherwise; any other exception is a failure that may be retried.
        """
        raise NotImplementedError

    def teardown(self) -> None:
        """Clean up an instance: called once, when nothing runs any more. Not called after a crash."""

    @classmethod
    def run(cls, environ: Mapping[str, str] | None = None) -> None:
        """Work until SIGTERM or SIGINT. Raises SystemExit when it could not end cleanly."""
        run_to_exit(cls, environ=environ)
