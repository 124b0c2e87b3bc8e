"""A route: what is called, what its handler is given, and what OpenAPI says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from app.settings import Settings
from app.web.problems import Problem
from app.web.request import DEFAULT_LIMIT, MAX_LIMIT
from app.web.response import Deferred, Response

S = TypeVar("S")

# Called with the audience's Context, the Request, and the path's parameters by name.
Handler = Callable[..., Response | Deferred[Any]]


@dataclass(frozen=True, slots=True)
class Context(Generic[S]):
    """What the handlers of one audience are given: its store, and the settings."""

    store: S
    settings: Settings


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; `schema` is its JSON schema."""

    name: str
    schema: Mapping[str, object]


TEXT: Mapping[str, object] = {"type": "string"}
LIMIT = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT})
CURSOR = Parameter("cursor", TEXT)


def status_of(statuses: Iterable[str]) -> Parameter:
    """Return the parameter `status` with these choices."""
    return Parameter("status", {"type": "string", "enum": list(statuses)})


@dataclass(frozen=True, slots=True)
class Route:
    """One operation. `body` is the struct that a request is decoded into.

    `responses` has a schema by status; a str is a media type. `problems` are those that can occur here beyond
    those that can occur everywhere.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    responses: Mapping[int, Any]
    body: Any = None
    query: tuple[Parameter, ...] = ()
    headers: tuple[str, ...] = ()
    problems: tuple[type[Problem], ...] = ()
    detail: str = field(default="")

    @property
    def name(self) -> str:
        """The handler's name, which is unique within an audience."""
        return self.handler.__name__
