"""A route: what is called, who may call it, and what OpenAPI says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.web.deferred import Later
from app.web.problems import Problem
from app.web.response import Response

# Called with the audience's scope, the Request request, and the path's parameters by name.
Handler = Callable[..., Response | Later[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """`body`: the struct a request is decoded into. `answers`: the shape by status; a str is a media type.

    `problems`: what can go wrong here beyond what can go wrong everywhere.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Any]
    body: Any = None
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    problems: tuple[type[Problem], ...] = ()
    detail: str = field(default="")

    @property
    def name(self) -> str:
        """Unique within an audience: the handler's."""
        return self.handler.__name__
