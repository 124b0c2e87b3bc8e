"""What the worker takes from a Handler class: its options, checked, and its methods."""

import inspect
import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ._errors import ConfigurationError
from ._sub_task import SubTask

# What returns before it has run.
LATER = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
QUEUE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
MAX_QUEUES = 64


class HandlerLike(Protocol):
    """A Handler as the worker sees it. `Handler.run` starts a worker, so the worker can't import Handler."""

    queue: ClassVar[str]

    def setup(self) -> None: ...

    def handle(self, sub_task: SubTask) -> Any: ...

    def teardown(self) -> None: ...


@dataclass(frozen=True)
class Options:
    """A Handler's class attributes, checked. Times are in seconds."""

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
    def of(cls, handler: type[HandlerLike], **overrides: Any) -> "Options":
        """Read a handler's options; overrides that are None are ignored.

        Raises ConfigurationError with every problem.
        """
        values: dict[str, Any] = {name: getattr(handler, name) for name in cls.__dataclass_fields__}
        values.update({name: value for name, value in overrides.items() if value is not None})
        values["queues"] = tuple(values["queues"] or (handler.queue,))
        options = cls(**values)
        problems = [*_handler_problems(handler), *_option_problems(options)]
        if problems:
            raise ConfigurationError([f"{handler.__name__}: {problem}" for problem in problems])
        return options


def _handler_problems(handler: type[HandlerLike]) -> list[str]:
    if getattr(handler.handle, "__isabstractmethod__", False):
        return ["handle is not defined"]
    names = ("setup", "handle", "teardown")
    return [
        f"{name} must be a plain function, neither async nor a generator"
        for name in names
        if any(is_later(method) for method in _callables(handler, name) for is_later in LATER)
    ]


def _callables(handler: type[HandlerLike], name: str) -> list[object]:
    """Return the method, and `__call__` where it is an object that can be called."""
    method = getattr(handler, name)
    return [method, vars(type(method)).get("__call__")]


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
