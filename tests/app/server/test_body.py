"""The reader of bodies alone: what it refuses, and how much memory and time a body may take of it."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Iterable

import pytest
from gunicorn.http.unreader import IterUnreader  # type: ignore[import-untyped]

from app.server.body import BodyBroken, RequestBody
from app.server.framing import MAX_TRAILERS, Chunked, Sized


def chunked(*pieces: bytes) -> RequestBody:
    return RequestBody(IterUnreader(pieces), Chunked())


def each_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


BODY = b'3\r\nabc\r\n0004 ; x="y"\r\ndefg\r\n0\r\nX-Sum: 1\r\n\r\n'


@pytest.mark.parametrize("pieces", [[BODY], each_byte(BODY), [BODY[:4], BODY[4:9], BODY[9:]]])
def test_chunks_are_joined_wherever_the_network_cuts_them(pieces: list[bytes]) -> None:
    body = chunked(*pieces)
    assert (body.read(), body.is_read, body.is_broken) == (b"abcdefg", True, False)
    assert body.read() == b""


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_it_is_read_in_any_portions(size: int) -> None:
    body = chunked(BODY)
    assert b"".join(iter(lambda: body.read(size), b"")) == b"abcdefg"


def test_what_comes_behind_the_end_is_left_for_the_next_request() -> None:
    unreader = IterUnreader([BODY + b"GET /", b" HTTP/1.1"])
    assert RequestBody(unreader, Chunked()).read() == b"abcdefg"
    assert unreader.read() == b"GET /"
    unreader = IterUnreader([b"abcGET /"])
    assert RequestBody(unreader, Sized(3)).read() == b"abc"
    assert unreader.read() == b"GET /"


def test_lines_are_read_as_wsgi_has_it() -> None:
    assert chunked(b"6\r\na\nb\ncd\r\n0\r\n\r\n").readlines() == [b"a\n", b"b\n", b"cd"]


@pytest.mark.parametrize(
    "data",
    [
        b"zz\r\n", b"-1\r\n", b"+1\r\na\r\n0\r\n\r\n", b"0x1\r\na\r\n0\r\n\r\n", b" 1\r\na\r\n0\r\n\r\n",
        b"1 \r\na\r\n0\r\n\r\n", b"1_0\r\n", b"\r\n", b"1\na\r\n0\r\n\r\n", b"1;a\rb\r\na\r\n0\r\n\r\n",
        b"1\r\nab\r\n0\r\n\r\n", b"1\r\na0\r\n\r\n", b"1\r\na\n0\r\n\r\n", b"1\r\na", b"1\r\na\r\n",
        b"ff\r\na",
        b"1\r\na\r\n0\r\n", b"0\r\nX\r\n\r\n", b"0\r\nX : y\r\n\r\n", b"0\r\n X: y\r\n\r\n",
        b"0\r\nX: a\0\r\n\r\n",
        b"0\r\nHost: x\r\n\r\n", b"0\r\ncontent-length: 1\r\n\r\n",
        b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"0\r\nAuthorization: Bearer x\r\n\r\n", b"0\r\nX: y\n\r\n", b"ffffffffffffffffff\r\na\r\n0\r\n\r\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [True, False])
def test_a_broken_body_stays_broken(data: bytes, whole: bool) -> None:
    broken = []
    body = RequestBody(
        IterUnreader([data] if whole else each_byte(data)), Chunked(), on_broken=lambda: broken.append(1)
    )
    for _ in range(2):
        with pytest.raises(BodyBroken):
            body.read()
    assert (body.is_broken, body.can_be_discarded, broken) == (True, False, [1])


@pytest.mark.parametrize(
    "endless",
    [
        [b"0\r\n", *([b"X: " + b"y" * 8000] * 4000)],
        [b"0\r\n", *([b"X: y\r\n" * 1000] * 4000)],
        [b"1;", *([b"x" * 8000] * 4000)],
        [b"0" * 8000] * 4000,
    ],
    ids=["a trailer", "trailers", "an extension", "a size"],
)
def test_what_is_no_content_has_a_bound(endless: list[bytes]) -> None:
    unread = iter(endless)
    body = RequestBody(IterUnreader(unread), Chunked())
    tracemalloc.start()
    with pytest.raises(BodyBroken):
        body.read()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20 * MAX_TRAILERS
    assert len(list(unread)) > 3900


def drip(clock: Iterable[float], pieces: Iterable[bytes], monkeypatch: pytest.MonkeyPatch) -> int:
    """Read a body while each look at the clock gives the next moment; return at which piece it broke."""
    moments = iter(clock)
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    counted = itertools.count()
    body = RequestBody(IterUnreader(piece for piece in pieces if next(counted) >= 0), Chunked())
    with pytest.raises(BodyBroken):
        body.read()
    return next(counted)


@pytest.mark.parametrize("begin", [b"ff\r\n", b"1;", b"0\r\nX: "], ids=["content", "extension", "trailer"])
def test_a_drip_is_ended_by_the_clock(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert drip(itertools.count(1, 1.0), [begin, *[b"x"] * 100], monkeypatch) == 21


def test_a_steady_client_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    # Half a second for 32 KiB is the rate that goes on for ever: only the end of the input breaks it.
    assert drip(itertools.count(1, 0.5), [piece] * 200, monkeypatch) == 200
