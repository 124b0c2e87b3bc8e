"""A route: what is called, what its handler is given, and what OpenAPI says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
    responses: Mapping[int, Any]
    body: Any = None
    query: tuple[Parameter, ...] = ()
    headers: tuple[str, ...] = ()
    problems: tuple[type[Problem], ...] = ()

    @property
    def name(self) -> str:
        """The handler's name, which is unique within an audience."""
        return self.handler.__name__

    @property
    def description(self) -> tuple[str, str]:
        """The summary and the details for OpenAPI, from the handler's docstring."""
        summary, _, details = (self.handler.__doc__ or "").partition("\n\n")
        return summary.rstrip("."), " ".join(details.split())


class Routes(list[Route]):
    """The routes of one module, added by decorating handlers: `@routes.get("/v1/tasks", TaskPage)`."""

    def get(self, path: str, responses: Any, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("GET", path, responses, more)

    def post(self, path: str, responses: Any, **more: Any) -> Callable[[Handler], Handler]:
        return self._add("POST", path, responses, more)

    def _add(
        self, method: str, path: str, responses: Any, more: Mapping[str, Any]
    ) -> Callable[[Handler], Handler]:
        """Return the decorator. `responses` that are not given by status are those of 200."""
        by_status = responses if isinstance(responses, dict) else {200: responses}

        def add(handler: Handler) -> Handler:
            self.append(Route(method, path, handler, by_status, **more))
            return handler

        return add
