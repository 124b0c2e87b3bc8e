"""Answers: JSON put together as text, so that the sender's own bytes go out as they came in."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from werkzeug.datastructures import Headers
from werkzeug.wrappers import Response

JSON = "application/json"


def answer(
    body: str | bytes, status: int = 200, headers: Iterable[tuple[str, str]] = (), media_type: str = JSON
) -> Response:
    data = body.encode() if isinstance(body, str) else body
    fields = [("Content-Type", media_type), ("Content-Length", str(len(data))), *headers]
    response = Response(status=status, headers=Headers(fields))
    response.response = [data]
    return response


def quoted(text: str | None) -> str:
    """A text of ours as JSON, or null."""
    return "null" if text is None else msgspec.json.encode(text).decode()


def page(items: Iterable[str], next_cursor: str | None) -> Response:
    """One page of a listing."""
    cursor = "null" if next_cursor is None else f'"{next_cursor}"'
    return answer(f'{{"items":[{",".join(items)}],"next_cursor":{cursor}}}')
