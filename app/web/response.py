"""Answers: JSON put together as text, so that the sender's own bytes go out as they came in."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

JSON = "application/json"
STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Response:
    """Status, headers and body, as they go out; Werkzeug's response would work them over once more."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, body: bytes, status: int, headers: list[tuple[str, str]]) -> None:
        self.body = body
        self.status = status
        self.headers = headers


def answer(
    body: str | bytes, status: int = 200, headers: Iterable[tuple[str, str]] = (), media_type: str = JSON
) -> Response:
    data = body.encode() if isinstance(body, str) else body
    if status == HTTPStatus.NO_CONTENT:
        return Response(b"", status, [*headers])
    fields = [("Content-Type", media_type), ("Content-Length", str(len(data))), *headers]
    return Response(data, status, fields)


def quoted(text: str | None) -> str:
    """A text of ours as JSON, or null."""
    return "null" if text is None else msgspec.json.encode(text).decode()


def page(items: Iterable[str], next_cursor: str | None) -> Response:
    """One page of a listing."""
    cursor = "null" if next_cursor is None else f'"{next_cursor}"'
    return answer(f'{{"items":[{",".join(items)}],"next_cursor":{cursor}}}')
