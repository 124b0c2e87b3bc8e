"""What users subclass, and its options checked."""

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ._errors import ConfigurationError
from ._sub_task import SubTask

QUEUE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
MAX_QUEUES = 64


class Handler:
    """Subclass it, set the class attributes that differ, write `handle`, call `YourClass.run()`.

    With `executor = "thread"` one instance serves all threads, so `handle` must be thread-safe. With
    "process" each of `concurrency` processes has its own instance; a crash costs one attempt only, and
    a handler that does not stop when told to is killed.
    """

    queue: ClassVar[str] = "default"
    queues: ClassVar[Sequence[str]] = ()
    """Several, in order of preference; then `queue` is not used."""
    concurrency: ClassVar[int] = 4
    """How many sub_tasks are handled at the same time."""
    executor: ClassVar[Literal["thread", "process"]] = "thread"
    lease_seconds: ClassVar[int] = 60
    """How soon RVQ gives the work to someone else when this worker dies; heartbeats extend it."""
    timeout_seconds: ClassVar[float | None] = None
    """How long one attempt may take. Afterwards its lease is not extended any more."""
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
        """Once per instance, before the first `handle`. An exception here stops the worker."""

    def handle(self, sub_task: SubTask) -> Any:
        """Do the work and return a JSON value, or `Raw`/bytes that are JSON already.

        Raise `Retry` or `Fail` to end it otherwise; any other exception is a failure that may be retried.
        """
        raise NotImplementedError

    def teardown(self) -> None:
        """Once per instance, when nothing runs any more. Not called after a crash."""

    @classmethod
    def run(cls, environ: Mapping[str, str] | None = None) -> None:
        """Work until SIGTERM or SIGINT. Raises SystemExit when it could not end cleanly."""
        from ._cli import run_to_exit  # the handler is what everything else builds on

        run_to_exit(cls, Options.of(cls), environ)


@dataclass(frozen=True)
class Options:
    """A Handler's class attributes, checked. Times are seconds."""

    queues: tuple[str, ...]
    concurrency: int
    executor: str
    lease_seconds: int
    timeout_seconds: float | None
    prefetch: int
    prefetch_seconds: float
    poll_seconds: tuple[float, float]
    grace_seconds: float
    flush_seconds: float

    @classmethod
    def of(cls, handler: type[Handler], **overrides: Any) -> "Options":
        """Raises ConfigurationError with every problem."""
        values: dict[str, Any] = {name: getattr(handler, name) for name in cls.__dataclass_fields__}
        values.update({name: value for name, value in overrides.items() if value is not None})
        values["queues"] = tuple(values["queues"] or (handler.queue,))
        options = cls(**values)
        problems = [*_handler_problems(handler), *_option_problems(options)]
        if problems:
            raise ConfigurationError([f"{handler.__name__}: {problem}" for problem in problems])
        return options


def _handler_problems(handler: type[Handler]) -> list[str]:
    if handler.handle is Handler.handle:
        return ["handle is not defined"]
    if inspect.iscoroutinefunction(handler.handle) or inspect.isgeneratorfunction(handler.handle):
        return ["handle must be a plain function, neither async nor a generator"]
    return []


def _option_problems(options: Options) -> list[str]:
    shortest, longest = options.poll_seconds
    checks = {
        f"queues must be names like {QUEUE.pattern}": all(QUEUE.fullmatch(queue) for queue in options.queues),
        f"queues must be at most {MAX_QUEUES}": len(options.queues) <= MAX_QUEUES,
        "concurrency must be a whole number, at least 1": _is_count(options.concurrency, 1),
        'executor must be "thread" or "process"': options.executor in ("thread", "process"),
        "lease_seconds must be a whole number from 1 to 3600": _is_count(options.lease_seconds, 1, 3600),
        "timeout_seconds must be more than 0": options.timeout_seconds is None or options.timeout_seconds > 0,
        "prefetch must be a whole number, at least 0": _is_count(options.prefetch, 0),
        "prefetch_seconds must be at least 0": options.prefetch_seconds >= 0,
        "poll_seconds must be (shortest, longest), more than 0": 0 < shortest <= longest,
        "grace_seconds must be at least 0": options.grace_seconds >= 0,
        "flush_seconds must be at least 0": options.flush_seconds >= 0,
    }
    return [problem for problem, holds in checks.items() if not holds]


def _is_count(value: object, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
