"""A request as handlers see it: its id, its body within the limits, its query."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec

from app.web import cursors
from app.web.moments import parse_moment
from app.web.problems import Fault, Invalid, MalformedBody, TooLarge, UnsupportedMedia
from app.web.strict_json import Document, read_json

T = TypeVar("T")
Environ = dict[str, Any]

MAX_BODY = 16 * 1024 * 1024
DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
# What the server calls the list of headers that came more than once (app/server/adapters.py).
REPEATED_HEADERS = "REPEATED HEADERS"
_SANE_ID = re.compile(r"[A-Za-z0-9._:=+/-]{1,128}", re.ASCII)
_LIMIT = re.compile(r"[0-9]{1,9}", re.ASCII)


class Request:
    """One request. Its methods raise the Problem that becomes the response.

    `id` is the caller's X-Request-Id if it sent a sane one, else one of ours.
    """

    __slots__ = ("_query", "environ", "id", "method", "path")

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ["PATH_INFO"]
        given = environ.get("HTTP_X_REQUEST_ID", "")
        self.id: str = given if _SANE_ID.fullmatch(given) else secrets.token_hex(12)
        self._query: dict[str, list[str]] | None = None

    def body(self) -> bytes:
        """Return the whole body. Raise UnsupportedMedia, TooLarge, or MalformedBody when it is cut."""
        _check_media_type(self.environ)
        return _read(self.environ)

    def json(self, decoder: msgspec.json.Decoder[T]) -> Document[T]:
        return read_json(self.body(), decoder)

    def header(self, name: str) -> str | None:
        """Return a header's value, or None. Raise Invalid when it comes twice."""
        if name.upper() in self.environ.get("HTTP_" + REPEATED_HEADERS, "").split():
            raise Invalid(Fault(f"/{name}", "the header was given more than once"))
        value: str | None = self.environ.get("HTTP_" + name.upper().replace("-", "_"))
        return value

    def parameter(self, name: str) -> str | None:
        """Return a query parameter; None if missing or empty. Raise Invalid when it comes twice."""
        if self._query is None:
            self._query = _parse_query(self.environ.get("QUERY_STRING", ""))
        values = self._query.get(name, [])
        if len(values) > 1:
            raise Invalid(Fault(f"/{name}", "given more than once"))
        return values[0] if values else None

    def limit(self) -> int:
        """Return how many items a page may have: 1 to 1000, by default 100."""
        text = self.parameter("limit")
        if text is None:
            return DEFAULT_LIMIT
        if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
            raise Invalid(Fault("/limit", f"must be a whole number from 1 to {MAX_LIMIT}"))
        return int(text)

    def cursor(self, kind: str, *counts: int) -> tuple[int, ...] | None:
        """Return the numbers in the `cursor` parameter, as many as one of `counts`; None if there is none."""
        text = self.parameter("cursor")
        if text is None:
            return None
        try:
            return cursors.parse(kind, text, *counts)
        except ValueError:
            raise Invalid(Fault("/cursor", "is not a cursor that this listing handed out")) from None

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        text = self.parameter(name)
        if text is not None and text not in choices:
            raise Invalid(Fault(f"/{name}", "must be one of " + ", ".join(choices)))
        return text

    def moment(self, name: str) -> datetime | None:
        """Return a time in UTC. Raise Invalid for what is no RFC 3339 time, or out of bounds."""
        text = self.parameter(name)
        try:
            return None if text is None else parse_moment(text)
        except ValueError as error:
            raise Invalid(Fault(f"/{name}", str(error))) from None


def _check_media_type(environ: Environ) -> None:
    given = environ.get("CONTENT_TYPE", "")
    if given != "application/json" and not _is_json(given):
        raise UnsupportedMedia("send Content-Type: application/json, in UTF-8")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise UnsupportedMedia("compressed bodies are not taken")


def _is_json(content_type: str) -> bool:
    """Return whether this is application/json; a charset, if given, must be UTF-8."""
    media_type, *parameters = (part.strip(" \t").lower() for part in content_type.split(";"))
    charsets = [part[8:].strip('"') for part in parameters if part.startswith("charset=")]
    return media_type == "application/json" and set(charsets) <= {"utf-8", "utf8"}


def _read(environ: Environ) -> bytes:
    """Read the body, up to the limit; one without a length (chunked) is counted while it comes."""
    length = _length(environ)
    if length is not None and length > MAX_BODY:
        raise TooLarge(f"at most {MAX_BODY} bytes")
    try:
        body: bytes = environ["wsgi.input"].read(MAX_BODY + 1 if length is None else length)
    except (OSError, ValueError) as error:
        raise MalformedBody("the body was cut or its chunks are broken") from error
    if len(body) > MAX_BODY:
        raise TooLarge(f"at most {MAX_BODY} bytes")
    if length is not None and len(body) < length:
        raise MalformedBody("the body was cut")
    return body


def _parse_query(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, errors="replace", max_num_fields=100) if text else {}
    except ValueError:
        raise Invalid(Fault("", "the query has more than 100 parameters")) from None


def _length(environ: Environ) -> int | None:
    """Return Content-Length; None when chunked, where the server's stream knows the end."""
    if environ.get("HTTP_TRANSFER_ENCODING"):
        return None
    text = environ.get("CONTENT_LENGTH") or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else MAX_BODY + 1
