"""Answers that come later: whoever has read the request goes on, and whoever ends the call answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from app.db.coalescing import Place
from app.web.response import Response

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Later(Generic[T]):
    """What a handler returns: the call that is under way, and what its result is made into."""

    call: Place[T]
    make: Callable[[T], Response]

    def answer(self) -> Response:
        """Waits for the call. Raises what it raised."""
        return self.make(self.call.result())


class LaterBody:
    """What a WSGI server is given: `start_response` is called when it is iterated (PEP 3333 allows that).

    To iterate is to wait. A server that knows this class leaves word with `when_ready` instead.
    """

    def __init__(self, call: Place[Any], finish: Callable[[], Iterable[bytes]]) -> None:
        self._call = call
        self._finish = finish

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._finish())

    def when_ready(self, then: Callable[[], None]) -> None:
        """Have it called once iterating does not wait: at once, or by whoever ends the call."""
        self._call.when_landed(then)
