"""Batches whose items are checked one by one: some are refused here, the others go to the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from app.web import metrics
from app.web.response import Response, json_response

T = TypeVar("T")

MAX_NAME = 64


class Batch(Generic[T]):
    """The items of one request. `names` are their ids as sent, or None; `accepted` go to the database."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self._outcomes: list[str | None] = []
        self.accepted: list[T] = []

    def refuse(self, name: str | None, outcome: str) -> None:
        self.names.append(name)
        self._outcomes.append(outcome)

    def accept(self, name: str, item: T) -> None:
        self.names.append(name)
        self._outcomes.append(None)
        self.accepted.append(item)

    def outcomes(self, of_accepted: Iterable[str]) -> list[str]:
        """Return the outcomes of all items in order, given those of `accepted`."""
        given = iter(of_accepted)
        return [outcome or next(given) for outcome in self._outcomes]

    def run(self, call: Callable[[Sequence[T]], Iterable[str]]) -> list[str]:
        """Return the outcomes of all items, with those of `accepted` from `call`, if there are any."""
        return self.outcomes(call(self.accepted) if self.accepted else ())


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
