"""Where the body of a request ends, as RFC 9112 says: by Content-Length, or by chunks. It does no I/O."""

from __future__ import annotations

import re

# Of one chunk's line with its extensions, and of all trailers together.
MAX_LINE, MAX_TRAILERS = 256, 8192
_LINE = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
# Fields that would change what was already decided: framing, routing, authentication, how the body is read.
_FORBIDDEN = frozenset(
    b"host content-length content-type content-encoding content-range transfer-encoding te trailer connection"
    b" authorization expect upgrade cookie idempotency-key x-request-id".split()
)


class BadFraming(ValueError):
    """The body is not framed as it should be: where it ends is unknown from here on."""


class Sized:
    """A body of `left` bytes."""

    def __init__(self, length: int) -> None:
        self.left = length

    @property
    def is_done(self) -> bool:
        return not self.left

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what of `data` is of the body, and what comes behind its end."""
        content = data[: self.left]
        self.left -= len(content)
        return content, data[len(content) :]


class Chunked:
    """A body in chunks. Extensions are not looked at, trailers are checked and dropped."""

    def __init__(self) -> None:
        self.is_done = False
        self._left = 0  # of the chunk that is being read
        self._incomplete = b""  # the beginning of a line, or of the line end behind a chunk
        self._expects_line_end = False
        self._trailers: int | None = None  # bytes of trailers so far; None: not there yet

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what of `data` is of the body, and what comes behind its end. Raise BadFraming."""
        data = self._incomplete + data
        content = []
        at = 0
        while not self.is_done:
            if self._left:
                piece = data[at : at + self._left]
                content.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._expects_line_end = True
            end = self._line_end(data, at)
            if end < 0:
                break
            self._take_line(data[at:end])
            at = end + 2
        self._incomplete = b"" if self.is_done else data[at:]
        return b"".join(content), data[at:] if self.is_done else b""

    def _line_end(self, data: bytes, at: int) -> int:
        """Return where the line that begins at `at` ends; -1 if that has not come yet."""
        if self._expects_line_end and not b"\r\n".startswith(data[at : at + 2]):
            raise BadFraming("a chunk is not followed by a line end")
        longest = MAX_LINE if self._trailers is None else MAX_TRAILERS - self._trailers
        end = data.find(b"\n", at, at + longest + 2)
        if end < 0:
            if len(data) - at > longest:
                raise BadFraming("a chunk's line, or the trailers, are too long")
            return -1
        if end == at or data[end - 1 : end] != b"\r":
            raise BadFraming("a line ends without a carriage return")
        return end - 1

    def _take_line(self, line: bytes) -> None:
        if self._expects_line_end:
            self._expects_line_end = False
        elif self._trailers is not None:
            self._take_trailer(line)
        else:
            found = _LINE.fullmatch(line)
            if not found:
                raise BadFraming("a chunk's size is not a hexadecimal number")
            self._left = int(found[1], 16)
            self._trailers = None if self._left else 0

    def _take_trailer(self, line: bytes) -> None:
        assert self._trailers is not None
        self._trailers += len(line) + 2
        if not line:
            self.is_done = True
            return
        found = _TRAILER.fullmatch(line)
        if not found or found[1].lower() in _FORBIDDEN:
            raise BadFraming("a trailer is malformed, or may not be one")
