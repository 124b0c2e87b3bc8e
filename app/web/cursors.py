"""Cursors of listings: numbers made opaque, so that nobody builds one and expects it to keep working."""

from __future__ import annotations

import base64
import binascii
import struct


def write(kind: str, *numbers: int) -> str:
    """Return a cursor. `kind` is one letter that tells listings apart; numbers fit in 63 bits."""
    packed = kind.encode() + struct.pack(f">{len(numbers)}Q", *numbers)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def parse(kind: str, text: str, *counts: int) -> tuple[int, ...]:
    """Return the numbers in a cursor, as many as one of `counts`. Raise ValueError for any other text."""
    count = next((count for count in counts if len(text) == ((1 + 8 * count) * 8 + 5) // 6), None)
    if count is None or not text.isascii():
        raise ValueError("not a cursor of this kind")
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    numbers: tuple[int, ...] = struct.unpack(f">{count}Q", packed[1:])
    if packed[:1] != kind.encode() or max(numbers) >> 63:
        raise ValueError("not a cursor of this kind")
    return numbers
