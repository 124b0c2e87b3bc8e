"""Batches of which each item is judged on its own: some are refused here, the others go to the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from app.web import metrics
from app.web.response import Response, json_response

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


def respond_to_batch(
    schema: Callable[..., Struct],
    item: Callable[..., Struct],
    call: str,
    names: Sequence[str | None],
    outcomes: Sequence[str],
) -> Response:
    """Return `schema` with an `item` for each name and its outcome, which are counted under `call`.

    A name is repeated, unless it is so long that it can't be an id.
    """
    metrics.count_outcomes(call, outcomes)
    shown = [name if name is None or len(name) <= MAX_NAME else None for name in names]
    return json_response(schema([item(*pair) for pair in zip(shown, outcomes, strict=True)]))
