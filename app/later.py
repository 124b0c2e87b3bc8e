"""Answers that come later: whoever has read the request goes on, and whoever ends the call answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from app.answers import Answer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Later(Generic[T]):
    """What a handler returns: the call that is under way, and what its result is made into."""

    call: Future[T]
    make: Callable[[T], Answer]

    def answer(self) -> Answer:
        """Waits for the call. Raises what it raised."""
        return self.make(self.call.result())


class LaterBody:
    """What a WSGI server is given: `start_response` is called when it is iterated (PEP 3333 allows that).

    To iterate is to wait. A server that knows this class leaves word with `when_ready` instead.
    """

    def __init__(self, call: Future[Any], finish: Callable[[], Iterable[bytes]]) -> None:
        self._call = call
        self._finish = finish

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._finish())

    def when_ready(self, go_on: Callable[[], None]) -> None:
        """Call it once iterating does not wait: at once, or in the thread that ends the call."""
        self._call.add_done_callback(lambda _: go_on())

    def close(self) -> None:
        """Let go of the call, which keeps what was left with it: nothing of a request may lie in a cycle."""
        del self._call, self._finish
