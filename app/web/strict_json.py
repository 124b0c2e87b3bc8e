"""A strict reader of JSON bodies that does not decode what is only passed on.

msgspec checks the grammar of what it skips (`msgspec.Raw`), NaN and control characters included. Added here:
UTF-8, a limit of nesting, and lone surrogates, which msgspec refuses (see surrogates.py).
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from app.web.problems import Fault, Invalid, MalformedBody
from app.web.surrogates import hide, restore

T = TypeVar("T")

MAX_DEPTH = 64
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_ANY = msgspec.json.Decoder(msgspec.Raw)
_WHERE = " - at `$"
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_NAMED = re.compile(r"^Object (?:contains unknown|missing required) field `(.*)`$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Document(Generic[T]):
    """A decoded body. `text` and `join` return the bytes of its raw values as the sender wrote them.

    Given `around`, the number of levels that enclose a value, both raise MalformedBody if it nests too deep.
    """

    value: T
    mark: bytes = b""

    def text(self, raw: msgspec.Raw, around: int | None = None) -> str:
        return self.join(b"", [raw], around)

    def join(self, separator: bytes, raws: list[msgspec.Raw], around: int | None = None) -> str:
        if around is not None:
            for raw in raws:
                refuse_deep(raw, around)
        joined = separator.join(raws)
        return (restore(joined, self.mark) if self.mark else joined).decode()


def read_json(body: bytes, decoder: msgspec.json.Decoder[T]) -> Document[T]:
    """Decode with `decoder`. Raise MalformedBody for what is not JSON, Invalid for what is not wanted."""
    try:
        body.decode()
        return _decode(body, decoder)
    except msgspec.ValidationError as error:
        fault = fault_of(str(error))
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise _malformed(error) from None
    # msgspec stops at the first fault: the rest may be no JSON at all, which is another problem.
    _check(body)
    raise Invalid(fault)


def is_too_deep(value: bytes | msgspec.Raw, around: int) -> bool:
    """Return whether valid JSON, enclosed by `around` levels, nests deeper than the limit."""
    data = bytes(value)
    limit = MAX_DEPTH - around
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    steps = _STRING.sub(b"", data).translate(_STEPS, _NOT_BRACKETS)
    return max(itertools.accumulate(memoryview(steps).cast("b")), default=0) > limit


def refuse_deep(value: bytes | msgspec.Raw, around: int) -> None:
    if is_too_deep(value, around):
        raise MalformedBody(f"the body nests deeper than {MAX_DEPTH} levels")


def fault_of(message: str) -> Fault:
    """Return msgspec's message, such as "Expected `int`, got `str` - at `$.limit`", as pointer and detail."""
    detail, _, path = message.rpartition(_WHERE)
    if not detail:
        detail, path = message, ""
    path = path.rstrip("`")
    pointer = "".join(f"/{name or index}" for name, index in _STEP.findall(path))
    named = _NAMED.match(detail)
    if named:
        pointer += "/" + named[1][:100].replace("~", "~0").replace("/", "~1")
    return Fault(pointer, detail[:300])


def _decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> Document[T]:
    try:
        return Document(decoder.decode(body))
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"\\u" not in body:
            raise
    try:
        hidden, mark = hide(body)
    except ValueError as error:
        raise MalformedBody(str(error)) from None
    return Document(decoder.decode(hidden), mark)


def _check(body: bytes) -> None:
    """Raise MalformedBody unless the body, which is refused anyway, is JSON within the limits."""
    try:
        _decode(body, _ANY)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _malformed(error) from None
    refuse_deep(body, 0)


def _malformed(error: Exception) -> MalformedBody:
    if isinstance(error, RecursionError):
        return MalformedBody(f"the body nests deeper than {MAX_DEPTH} levels")
    if isinstance(error, UnicodeDecodeError):
        return MalformedBody(f"the body is not UTF-8 from byte {error.start} on")
    return MalformedBody(str(error))
