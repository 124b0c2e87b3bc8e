"""A way of carrying lone surrogates, such as "\\ud800", through a decoder that refuses them.

They are legal JSON (RFC 8259, section 8.2). Before decoding, the `\\u` of each is
replaced by a mark, a character that the body does not have; afterwards the mark is replaced by `\\u` again.
"""

from __future__ import annotations

import re

# A pair, a lone half, or any other escape: scanned one after the other, so `\\\\ud800` is not mistaken.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# C1 controls: two bytes like the `\\u` they stand for, and no text field of ours takes them.
_MARKS = tuple(chr(code).encode() for code in range(0x80, 0xA0))


def hide(body: bytes) -> tuple[bytes, bytes]:
    """Return the body without lone surrogates, and the mark. Raise ValueError when no mark is left."""
    mark = next((mark for mark in _MARKS if mark not in body), None)
    if mark is None:
        raise ValueError("lone surrogates beside every C1 control character")

    def replace(match: re.Match[bytes]) -> bytes:
        return mark + match[1][1:] if match[1] else match[0]

    return _ESCAPE.sub(replace, body), mark


def restore(text: bytes, mark: bytes) -> bytes:
    """Return a part of a hidden body as its sender wrote it."""
    return text.replace(mark, b"\\u")
