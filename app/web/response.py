"""Responses: JSON encoded from the schemas, with the senders' own bytes in it as they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec

from app.db.coalescing import Future

T = TypeVar("T")

JSON = "application/json"
STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
_encode = msgspec.json.Encoder().encode


class Response:
    """A status, headers and a body, as they are sent; Werkzeug's response would process them once more."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        headers: Iterable[tuple[str, str]] = (),
        media_type: str = JSON,
    ) -> None:
        self.body = body
        self.status = status
        content = [("Content-Type", media_type), ("Content-Length", str(len(body)))]
        self.headers = [*headers] if status == HTTPStatus.NO_CONTENT else [*content, *headers]


@dataclass(frozen=True, slots=True)
class Deferred(Generic[T]):
    """A response that comes later: the database call that is under way, and what makes its result a response.

    The thread that read the request moves on; the thread that ends the call sends the response.
    """

    future: Future[T]
    render: Callable[[T], Response]


def json_response(content: object, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Response:
    """Return `content`, a schema or anything else msgspec encodes, as JSON; `msgspec.Raw` stays as it is."""
    return Response(_encode(content), status, headers)


def page(items: list[Any], next_cursor: str | None) -> Response:
    """Return one page of a listing."""
    return json_response({"items": items, "next_cursor": next_cursor})
