"""Reading an answer: the same however it is cut into packets, and never a fault of ours."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.hostile.responses import http
from dispatcher.http.connector import Limits
from dispatcher.http.reader import PeerClosed, Reader
from dispatcher.http.response import Body, Head, NotHttp, read_body, read_head
from dispatcher.http.wire import Deadline, Wire

LIMITS = Limits(total=20, head_bytes=2000, body_bytes=1000, kept_bytes=100)


def read(*packets: bytes) -> tuple[Head, Body]:
    """What is read when these arrive one after the other, and then the end of the stream."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = Wire(ours)
        reader = Reader(wire, Deadline(LIMITS.total), LIMITS.head_bytes)
        for packet in packets:
            theirs.sendall(packet)
        theirs.shutdown(socket.SHUT_WR)
        head = read_head(reader)
        return head, read_body(reader, head, LIMITS)


CHUNKED = http(
    "200 OK", "Transfer-Encoding: Chunked", body="4;x=y\r\nhell\r\n1\r\no\r\n0\r\nTrailer: x\r\n\r\n"
)


@pytest.mark.parametrize(
    ("answer", "kept", "keeps_alive"),
    [
        (http("200 OK", "Content-Length: 5", body="hello"), b"hello", True),
        (http("200 OK", "CONTENT-LENGTH:5", "Connection: keep-alive", body="hello"), b"hello", True),
        (http("200 OK", "Content-Length: 5", "Connection: Close", body="hello"), b"hello", False),
        (
            http("200 OK", "Content-Length: 5", "Connection: x", "Connection: close", body="hello"),
            b"hello",
            False,
        ),
        (http("200 OK", body="hello"), b"hello", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
        (CHUNKED, b"hello", True),
        (http("204 No Content"), b"", True),
        (http("304 Not Modified", "Content-Length: 5"), b"", True),
    ],
)
def test_a_body_is_read_as_it_is_framed(answer: bytes, kept: bytes, keeps_alive: bool) -> None:
    head, body = read(answer)
    assert (body, head.keeps_alive()) == (Body(kept, None), keeps_alive)


def test_of_a_long_body_the_beginning_is_kept() -> None:
    _, body = read(http("200 OK", "Content-Length: 300", body="ab" * 150))
    assert body == Body(b"ab" * 50, None)


@pytest.mark.parametrize(("length", "cut"), [(1000, None), (2500, "size")])
def test_a_body_is_not_read_far_beyond_its_limit(length: int, cut: str | None) -> None:
    assert read(http("200 OK", f"Content-Length: {length}", body="x" * length))[1].cut == cut


def test_the_first_of_a_repeated_header_counts_and_names_have_no_case() -> None:
    head, _ = read(http("503 No", "RETRY-after: 7", "Retry-After: 9", "Content-Length: 0"))
    assert head.text(b"retry-after") == "7"
    assert head.text(b"date") is None


def test_a_body_is_never_decompressed() -> None:
    _, body = read(http("200 OK", "Content-Encoding: gzip", body="\x1f\x8b garbage"))
    assert body == Body(b"\x1f\x8b garbage", None)


@settings(deadline=None)
@given(st.data())
def test_where_packets_end_makes_no_difference(data: st.DataObject) -> None:
    answer = http("100 Continue") + data.draw(st.sampled_from([CHUNKED, http("500 No", body="x" * 50)]))
    places = sorted(data.draw(st.sets(st.integers(1, len(answer) - 1), max_size=8)))
    packets = [answer[a:b] for a, b in zip([0, *places], [*places, len(answer)], strict=True)]
    assert read(*packets) == read(answer)


PIECES = st.sampled_from(
    [
        *(
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 100 Go\r\n\r\n",
            b"\r\n",
            b"\n",
            b"\r\n\r\n",
            b"HTTP/1.",
            b"x" * 700,
        ),
        *(
            b"Content-Length: 5\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"5\r\nhello\r\n",
            b"0\r\n\r\n",
            b"\0",
            b":",
        ),
    ]
)


@settings(deadline=None, max_examples=500)
@given(st.lists(PIECES | st.binary(max_size=20), max_size=12).map(b"".join))
def test_whatever_arrives_there_is_an_answer_or_a_known_failure(data: bytes) -> None:
    try:
        head, body = read(data)
    except (NotHttp, PeerClosed):
        return
    assert 200 <= head.status <= 999 or head.status == 101
    assert len(body.kept) <= LIMITS.kept_bytes
