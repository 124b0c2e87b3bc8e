"""Batches of which each item is judged on its own: some are refused here, the others go to the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from app.web import metrics
from app.web.response import Response, answer, quoted

T = TypeVar("T")

MAX_NAME = 64


class Batch(Generic[T]):
    """`names` are the ids as they were sent, None where there was none; `taken` are to be asked about."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self._outcomes: list[str | None] = []
        self.taken: list[T] = []

    def refuse(self, name: str | None, outcome: str) -> None:
        self.names.append(name)
        self._outcomes.append(outcome)

    def take(self, name: str, item: T) -> None:
        self.names.append(name)
        self._outcomes.append(None)
        self.taken.append(item)

    def outcomes(self, of_taken: Iterable[str]) -> list[str]:
        """Of all items in order, given those of `taken`."""
        asked = iter(of_taken)
        return [outcome or next(asked) for outcome in self._outcomes]

    def settle(self, call: Callable[[Sequence[T]], Iterable[str]]) -> list[str]:
        """The outcomes of all items, having asked `call` about those that were taken, if any."""
        return self.outcomes(call(self.taken) if self.taken else ())


def answer_batch(call: str, names: Sequence[str | None], outcomes: Sequence[str]) -> Response:
    metrics.count_outcomes(call, outcomes)
    items = ",".join(
        f'{{"id":{_name(name)},"outcome":"{outcome}"}}' for name, outcome in zip(names, outcomes, strict=True)
    )
    return answer(f'{{"results":[{items}]}}')


def _name(name: str | None) -> str:
    """Repeated, unless it is so long that it can't be an id. One that could be needs no quoting."""
    if name is None or len(name) > MAX_NAME:
        return "null"
    return f'"{name}"' if name.isidentifier() else quoted(name)
