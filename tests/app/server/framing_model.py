"""What an HTTP/1.1 server answers to a stream of bytes, written from RFC 9112 and from nothing of ours.

The client sends the stream and then closes its side. The routes are two: GET /healthz reads no body, and
POST /v1/webhooks/verify reads one once the token and the type of the body are right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.app.rig import PARTNER

MAX_HEAD, MAX_FIELDS, MAX_FIELD, MAX_TARGET = 32 * 1024, 100, 8190, 4000
MAX_CHUNK_LINE, MAX_TRAILERS, MAX_BODY = 256, 8192, 16 * 1024 * 1024
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
REQUEST_LINE = re.compile(rb"([A-Z]{3,20}) (/[!-~]*|\*|https?://[!-~]+|(?<=CONNECT )[!-~]+) HTTP/1\.([01])")
HOST = re.compile(rb"[A-Za-z0-9.-]*(:[0-9]*)?|\[[0-9a-f:]+\](:[0-9]*)?")
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]+)([ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
NOT_IN_TRAILERS = {b"host", b"content-length", b"transfer-encoding", b"trailer", b"authorization", b"te"}
VERIFIED = b'{"headers":{},"body":"x"}'
# RFC 9112 leaves to the server: bare line feeds, an empty line in front, folding, more white space in line 1.
UNCLEAR = re.compile(rb"\A\r\n|(?<!\r)\n|\r\n[ \t]|\A[^\r]*(?:  | \r)")
REFUSED = frozenset({400, 414, 431})


@dataclass(frozen=True)
class Expected:
    """One answer: its status is one of these, if any. If `closes`, it is the last; None: it may be."""

    statuses: frozenset[int]
    closes: bool | None
    method: bytes = b"GET"


class Bad(Exception):
    """The framing can't be known."""


class Unclear(Exception):
    """RFC 9112 lets a server choose what to do with this head."""


@dataclass
class Head:
    method: bytes
    target: bytes
    minor: int
    fields: list[tuple[bytes, bytes]]

    def values(self, name: bytes) -> list[bytes]:
        return [value for given, value in self.fields if given.lower() == name]


def expect(stream: bytes) -> Iterator[Expected]:
    """Yield the answers to a stream. At one without statuses all that is known of the rest ends."""
    at = 0
    while at < len(stream):
        end = stream.find(b"\r\n\r\n", at)
        try:
            if end < 0:
                raise Unclear  # it may be refused before its end came, and is left without an answer else
            head = parse_head(stream[at:end])
            body, behind = parse_body(head, stream, end + 4)
        except Unclear:
            yield Expected(frozenset(), None)
            return
        except Bad as bad:
            yield Expected(frozenset(bad.args[0] if bad.args else {400}), True)
            return
        status, reads = status_of(head)
        if reads and body is None:
            status = 400
        elif reads:
            status = status_of_body(body or b"")
        invited = [value.lower() for value in head.values(b"expect")] == [b"100-continue"] and head.minor == 1
        # Without leave for the body it is unknown whether it comes; with it, a server may end there too.
        withheld = invited and not reads and behind != end + 4
        closes = body is None or withheld or wants_close(head)
        yield Expected(frozenset({status}), None if invited and not closes else closes, head.method)
        if closes:
            return
        at = behind


def parse_head(data: bytes) -> Head:
    if UNCLEAR.search(data):
        raise Unclear
    line, *lines = data.split(b"\r\n")
    found = REQUEST_LINE.fullmatch(line)
    if not found:
        raise Bad(REFUSED)
    if len(found[2]) > MAX_TARGET:
        raise Bad({414, 431})
    if len(data) + 4 > MAX_HEAD or len(lines) > MAX_FIELDS:
        raise Bad(REFUSED)
    head = Head(found[1], found[2], int(found[3]), [parse_field(one) for one in lines])
    if any(len(one) > MAX_FIELD - 2 for one in lines):
        raise Bad(REFUSED)
    hosts = head.values(b"host")
    if len(hosts) > 1 or (head.minor and not hosts) or not all(HOST.fullmatch(host) for host in hosts):
        raise Bad
    if any(value.lower() != b"100-continue" for value in head.values(b"expect")):
        raise Bad({400, 417})
    if head.target == b"*" and head.method != b"OPTIONS":
        raise Bad
    if len(head.values(b"content-type")) > 1:
        raise Bad
    return head


def parse_field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
        raise Bad(REFUSED)
    return name, value.strip(b" \t")


def parse_body(head: Head, stream: bytes, at: int) -> tuple[bytes | None, int]:
    """Return the body, or None if its end can't be found; and where the next request begins."""
    codings, lengths = head.values(b"transfer-encoding"), head.values(b"content-length")
    if codings:
        if lengths or not head.minor or len(codings) > 1 or codings[0].lower() != b"chunked":
            raise Bad({400, 501})
        return parse_chunks(stream, at)
    if not lengths:
        return b"", at
    if len(lengths) > 1 or not re.fullmatch(rb"[0-9]+", lengths[0]):
        raise Bad
    if len(lengths[0]) > 18:
        raise Unclear  # a server may count only so far
    end = at + int(lengths[0])
    return (stream[at:end] if end <= len(stream) else None), end


def parse_chunks(stream: bytes, at: int) -> tuple[bytes | None, int]:
    content = b""
    while True:
        end = stream.find(b"\r\n", at)
        line = CHUNK_LINE.fullmatch(stream[at:end]) if 0 <= end - at <= MAX_CHUNK_LINE else None
        if not line:
            return None, at
        size, at = int(line[1], 16), end + 2
        if not size:
            return parse_trailers(content, stream, at)
        if stream[at + size : at + size + 2] != b"\r\n":
            return None, at
        content += stream[at : at + size]
        at += size + 2


def parse_trailers(content: bytes, stream: bytes, at: int) -> tuple[bytes | None, int]:
    begin = at
    while (end := stream.find(b"\r\n", at)) >= 0 and end - begin <= MAX_TRAILERS:
        if end == at:
            return content, end + 2
        name, colon, value = stream[at:end].partition(b":")
        if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
            return None, at
        if name.lower() in NOT_IN_TRAILERS:
            return None, at
        at = end + 2
    return None, at


def status_of(head: Head) -> tuple[int, bool]:
    """Return the status, and whether the body is read, which may change it."""
    path = re.sub(rb"^https?://[^/?]*", b"", head.target).partition(b"?")[0]
    if path == b"/healthz":
        return {b"GET": 200, b"HEAD": 200, b"OPTIONS": 204}.get(head.method, 405), False
    if path != b"/v1/webhooks/verify":
        return 404, False
    if head.method != b"POST":
        return (204 if head.method == b"OPTIONS" else 405), False
    if head.values(b"authorization") != [b"Bearer " + PARTNER.encode()]:
        return 401, False
    if head.values(b"content-type") != [b"application/json"]:
        return 415, False
    if any(int(length) > MAX_BODY for length in head.values(b"content-length")):
        return 413, False
    return 200, True


def status_of_body(body: bytes) -> int:
    try:
        json.loads(body)
    except ValueError:
        return 400
    return 200 if body == VERIFIED else 422


def wants_close(head: Head) -> bool:
    (given,) = head.values(b"connection") or [b""]
    return given.lower() == b"close" or (head.minor == 0 and given.lower() != b"keep-alive")
