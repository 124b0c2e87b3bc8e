"""One HTTP/1 response is read strictly, and never more of it than the limits say.

1xx responses are passed over, within the head's budget. The body is read as it is, never decompressed: up to
64 KiB of it, so that the connection can be kept, and the first 8 KiB are remembered. The status counts as
soon as the head is whole: a receiver that said 200 has the webhook, even if its body never ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from dispatcher.http.attempt import Cut
from dispatcher.http.connector import Limits
from dispatcher.http.reader import OverBudget, PeerClosed, Reader

_STATUS_LINE = re.compile(rb"\AHTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n\Z")
_LENGTH = re.compile(rb"\A[0-9]{1,18}\Z")
_CHUNK_SIZE = re.compile(rb"\A([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n\Z")
_PIECE = 16 * 1024
_LINE_ENDS = (b"\r\n", b"\n")
_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
# A second one of these changes where the response ends, so it is not overlooked.
_FRAMING = (b"content-length", b"transfer-encoding", b"connection")


class NotHttp(Exception):
    """What came back is not HTTP/1; the message says in which way."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers of a response; `version` is the minor one of HTTP/1.

    Header names are in lower case. Of a repeated header the first value counts; of one that frames, all do.
    """

    version: bytes
    status: int
    headers: dict[bytes, bytes]

    def text(self, name: bytes) -> str | None:
        """Return the header's value, or None."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def keeps_alive(self) -> bool:
        """Return whether the connection may be used again, once the body is read to its end."""
        is_framed = self.status in _NO_BODY or any(name in self.headers for name in _FRAMING[:2])
        asks_to_close = b"close" in self.headers.get(b"connection", b"").lower()
        return self.version == b"1" and is_framed and not asks_to_close


@dataclass(frozen=True, slots=True)
class Body:
    """The part of a body that is kept; `cut` says why it ended early, None when it was read to its end."""

    kept: bytes
    cut: Cut | None


def read_head(reader: Reader) -> Head:
    """Read the final response's head. Raises NotHttp, PeerClosed, TimeoutError or OSError."""
    try:
        while True:
            head = _read_one_head(reader)
            if head.status >= 200 or head.status == HTTPStatus.SWITCHING_PROTOCOLS:
                return head
    except OverBudget:
        raise NotHttp("the head is too long") from None


def read_body(reader: Reader, head: Head, limits: Limits) -> Body:
    """Read the body as it is framed. Raises nothing, whatever the receiver does: `cut` says it."""
    kept = bytearray()
    cut: Cut | None = None
    reader.set_budget(limits.body_bytes)
    try:
        for piece in _pieces(reader, head):
            kept += piece[: limits.kept_bytes - len(kept)]
    except OverBudget:
        cut = "size"
    except TimeoutError:
        cut = "deadline"
    except NotHttp:
        cut = "framing"
    except (PeerClosed, OSError):
        cut = "peer"
    return Body(bytes(kept), cut)


def _read_one_head(reader: Reader) -> Head:
    status_line = _STATUS_LINE.match(reader.take_line())
    if status_line is None:
        raise NotHttp("the first line is not HTTP/1")
    headers: dict[bytes, bytes] = {}
    while (line := reader.take_line()) not in _LINE_ENDS:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip()
        if name in headers and name in _FRAMING:
            headers[name] += b"," + value
        else:
            headers.setdefault(name, value)
    return Head(status_line[1], int(status_line[2]), headers)


def _pieces(reader: Reader, head: Head) -> Iterator[bytes]:
    coding, length = head.headers.get(b"transfer-encoding"), head.headers.get(b"content-length")
    if head.status in _NO_BODY:
        return
    if head.status < 200 or (coding is not None and (length is not None or coding.lower() != b"chunked")):
        raise NotHttp("it is not clear where the body ends")
    if coding is not None:
        yield from _chunks(reader)
    elif length is not None:
        if _LENGTH.match(length) is None:
            raise NotHttp("the length is not a number")
        yield from _exactly(reader, int(length))
    else:
        yield from _until_closed(reader)


def _chunks(reader: Reader) -> Iterator[bytes]:
    while size := _chunk_size(reader.take_line()):
        yield from _exactly(reader, size)
        if reader.take_line() not in _LINE_ENDS:
            raise NotHttp("a chunk is longer than it says")
    while reader.take_line() not in _LINE_ENDS:
        pass  # trailers, of no interest


def _chunk_size(line: bytes) -> int:
    match = _CHUNK_SIZE.match(line)
    if match is None:
        raise NotHttp("a chunk has no size")
    return int(match[1], 16)


def _exactly(reader: Reader, count: int) -> Iterator[bytes]:
    while count:
        piece = reader.take_some(count)
        count -= len(piece)
        yield piece


def _until_closed(reader: Reader) -> Iterator[bytes]:
    while True:
        try:
            yield reader.take_some(_PIECE)
        except PeerClosed:
            return
