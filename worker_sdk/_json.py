"""JSON whose parts can be kept as they were written.

A claim's response carries payloads that must reach the handler byte for byte. A `Reader` reads one value of
a text, as `JSONDecoder.raw_decode` does. Readers are combined into the shape of a whole request or response,
which is then read once; the values that are wanted `as_written` are cut out on the way.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

Reader = Callable[[str, int], tuple[Any, int]]
"""A reader returns the value at an index of a text, and its end. It raises ValueError or RecursionError."""

_SPACE = r"[ \t\n\r]*+"
# The group that matches when there is no further member or element.
_OPEN_OBJECT = re.compile(rf"\{{{_SPACE}(\}})?")
_NEXT_MEMBER = re.compile(rf"{_SPACE}(?:,{_SPACE}|(\}}))")
_COLON = re.compile(f"{_SPACE}:{_SPACE}")
_OPEN_ARRAY = re.compile(rf"\[{_SPACE}(\])?")
_NEXT_ELEMENT = re.compile(rf"{_SPACE}(?:,{_SPACE}|(\]))")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _raw_decode(**options: Any) -> Reader:
    return json.JSONDecoder(parse_constant=_refuse_constant, **options).raw_decode


decoded = _raw_decode()
# Numbers stay text: converting long ones is slow, and Python refuses those of more than 4300 digits.
_skipped = _raw_decode(parse_int=str, parse_float=str)


def as_written(text: str, at: int) -> tuple[bytes, int]:
    """Read any value as the bytes it was sent in."""
    _, end = _skipped(text, at)
    return text[at:end].encode(), end


def object_of(*names: str, **readers: Reader) -> Reader:
    """Return a reader of objects that keeps these members and skips others.

    Those given by name alone are `decoded`, the others are read by the reader given.
    """
    members = {**dict.fromkeys(names, decoded), **readers}

    def read(text: str, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        at, more = _step(_OPEN_OBJECT, text, at)
        while more:
            name, at = _name(text, at)
            value, at = members.get(name, _skipped)(text, at)
            if name in members:
                found[name] = value
            at, more = _step(_NEXT_MEMBER, text, at)
        return found, at

    return read


def array_of(element: Reader) -> Reader:
    """Return a reader of arrays whose elements are all read by `element`."""

    def read(text: str, at: int) -> tuple[list[Any], int]:
        found = []
        at, more = _step(_OPEN_ARRAY, text, at)
        while more:
            value, at = element(text, at)
            found.append(value)
            at, more = _step(_NEXT_ELEMENT, text, at)
        return found, at

    return read


def decode(data: bytes, read: Reader) -> Any:
    """Return what `read` makes of UTF-8 that holds one JSON value. Raises ValueError for anything else."""
    text = data.decode().strip(" \t\n\r")
    try:
        value, end = read(text, 0)
    except RecursionError as error:
        raise ValueError("it nests too deep") from error
    if end != len(text):
        raise ValueError(f"unexpected text at character {end}")
    return value


def check(data: bytes) -> None:
    """Raise ValueError unless this is exactly one JSON value in UTF-8."""
    decode(data, _skipped)


def encode(value: object) -> bytes:
    """Return compact UTF-8 JSON. Raises ValueError, TypeError or RecursionError; NaN is refused, too."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _name(text: str, at: int) -> tuple[str, int]:
    """Read a member's name and the colon behind it."""
    name, at = decoded(text, at)
    if not isinstance(name, str):
        raise ValueError(f"expected a member's name before character {at}")
    return name, _step(_COLON, text, at)[0]


def _step(pattern: re.Pattern[str], text: str, at: int) -> tuple[int, bool]:
    """Return where the punctuation at `at` ends, and whether a member or element follows."""
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"unexpected text at character {at}")
    return match.end(), match.lastindex is None
