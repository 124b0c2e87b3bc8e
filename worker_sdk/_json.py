"""JSON without touching what is only passed on.

A claim's answer carries payloads that must reach the handler byte for byte, so the envelope is cut
with a small lexical scanner over the bytes (UTF-8 never hides an ASCII byte inside a character) and
nothing in a payload is decoded or written again. It does not recurse: depth costs nothing.
"""

import json
import re

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE = rb"[ \t\n\r]*+"
_WHITE = re.compile(_SPACE)
_KEY = re.compile(_SPACE + b"(" + _STRING + b")" + _SPACE + b":" + _SPACE, re.DOTALL)
_TEXT = re.compile(_STRING, re.DOTALL)
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]++")
# The last alternative is a quote that opens no complete string: the text is cut.
_STRUCTURE = re.compile(_STRING + rb'|[\[\]{}]|"', re.DOTALL)


def split_object(text: bytes) -> dict[str, bytes]:
    """One object's members, each value as the exact bytes written. Raises ValueError."""
    members: dict[str, bytes] = {}
    at, done = _enter(text, b"{", b"}")
    while not done:
        key = _KEY.match(text, at)
        if key is None:
            raise ValueError(f"expected a member name at byte {at}")
        end = _value_end(text, key.end())
        members[json.loads(key[1])] = text[key.end() : end]
        at, done = _after_value(text, end, b"}")
    return members


def split_array(text: bytes) -> list[bytes]:
    """One array's elements, each as the exact bytes written. Raises ValueError."""
    elements: list[bytes] = []
    at, done = _enter(text, b"[", b"]")
    while not done:
        end = _value_end(text, at)
        elements.append(text[at:end])
        at, done = _after_value(text, end, b"]")
    return elements


def encode(value: object) -> bytes:
    """Compact UTF-8 JSON. Raises ValueError, TypeError, RecursionError (NaN and lone surrogates too)."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def check(text: bytes) -> None:
    """Raise ValueError (RecursionError when very deep) unless this is exactly one JSON value in UTF-8."""
    # Numbers are not converted: their size is no reason to refuse them.
    json.loads(text.decode(), parse_int=len, parse_float=len, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _enter(text: bytes, opening: bytes, closing: bytes) -> tuple[int, bool]:
    """Where the first value starts, and whether the container is empty."""
    at = _skip(text, 0)
    if text[at : at + 1] != opening:
        raise ValueError(f"expected {opening.decode()} at byte {at}")
    at = _skip(text, at + 1)
    if text[at : at + 1] == closing:
        return _expect_end(text, at + 1), True
    return at, False


def _after_value(text: bytes, end: int, closing: bytes) -> tuple[int, bool]:
    """Where the next value starts, and whether the container ended instead."""
    at = _skip(text, end)
    mark = text[at : at + 1]
    if mark == closing:
        return _expect_end(text, at + 1), True
    if mark != b",":
        raise ValueError(f"expected , or {closing.decode()} at byte {at}")
    return _skip(text, at + 1), False


def _value_end(text: bytes, at: int) -> int:
    first = text[at : at + 1]
    if first in (b"{", b"["):
        return _container_end(text, at)
    match = (_TEXT if first == b'"' else _SCALAR).match(text, at)
    if match is None:
        raise ValueError(f"expected a value at byte {at}")
    return match.end()


def _container_end(text: bytes, at: int) -> int:
    depth = 0
    for token in _STRUCTURE.finditer(text, at):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return token.end()
        elif mark == b'"':
            break
    raise ValueError(f"the value at byte {at} does not end")


def _expect_end(text: bytes, at: int) -> int:
    if _skip(text, at) != len(text):
        raise ValueError(f"unexpected text at byte {at}")
    return at


def _skip(text: bytes, at: int) -> int:
    match = _WHITE.match(text, at)
    assert match is not None  # it matches the empty string too
    return match.end()
