"""What hostile, broken and odd receivers do, each with the outcomes that a sound sender reports.

`cut` is why the response that was kept is not whole. Drips are far slower than any deadline of the tests.
"""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from bench.hostile.certificates import Kind
from bench.hostile.peer import Peer

Serve = Callable[[Peer], None]

OK = b"HTTP/1.1 200 OK\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """`outcomes`: those that are right. `scheme`: of the URL that the sender is given.

    `certificate`: before `serve`, a TLS handshake is made with one of this kind. `host`: the URL's name.
    """

    serve: Serve
    outcomes: tuple[str, ...]
    cut: str | None = None
    scheme: str = "http"
    certificate: Kind | None = None
    host: str = "hooks.test"


def _endless(start: bytes, keep_sending: Serve) -> Serve:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(start)
        keep_sending(peer)

    return serve


def drips(start: bytes, then: bytes) -> Serve:
    """Return a behaviour that sends `start`, and then `then` without end, one byte at a time."""
    return _endless(start, lambda peer: peer.drip_forever(then))


def floods(start: bytes, then: bytes) -> Serve:
    """Return a behaviour that sends `start`, and then `then` without end, as fast as it goes."""
    return _endless(start, lambda peer: peer.flood(then))


BEHAVIOURS: dict[str, Behaviour] = {
    "drip-status-line": Behaviour(drips(b"", b"HTTP/1.1 200 " + b"O" * 100_000), ("unknown",)),
    "drip-headers": Behaviour(drips(OK, b"X: y\r\n"), ("unknown",)),
    "drip-body": Behaviour(drips(OK + b"Content-Length: 100000\r\n\r\n", b"x"), ("delivered",), "deadline"),
    "drip-body-of-a-failure": Behaviour(
        drips(b"HTTP/1.1 500 Oops\r\n\r\n", b"x"), ("http_error",), "deadline"
    ),
    "drip-chunks": Behaviour(drips(CHUNKED, b"1\r\nx\r\n"), ("delivered",), "deadline"),
    "drip-trailers": Behaviour(drips(CHUNKED + b"0\r\n", b"X: y\r\n"), ("delivered",), "deadline"),
    "drip-continues": Behaviour(drips(b"", CONTINUE), ("unknown",)),
    "flood-of-continues": Behaviour(floods(b"", CONTINUE), ("protocol_error",)),
    "endless-status-line": Behaviour(floods(b"HTTP/1.1 200 ", b"O" * 4096), ("protocol_error",)),
    "endless-headers": Behaviour(floods(OK, b"X-Filler: " + b"y" * 1000 + b"\r\n"), ("protocol_error",)),
    "endless-body": Behaviour(floods(OK + b"\r\n", b"z" * 65536), ("delivered",), "size"),
    "endless-chunks": Behaviour(floods(CHUNKED, b"5\r\nhello\r\n"), ("delivered",), "size"),
    "endless-chunk-extension": Behaviour(floods(CHUNKED + b"5;x=", b"y" * 4096), ("delivered",), "size"),
    "redirect-with-an-endless-body": Behaviour(
        floods(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", b"z" * 65536),
        ("http_error",),
        "size",
    ),
}


def behaviour(name: str, *outcomes: str, cut: str | None = None) -> Callable[[Serve], Serve]:
    """Register a function, which is called for each connection."""

    def register(serve: Serve) -> Serve:
        BEHAVIOURS[name] = Behaviour(serve, outcomes, cut)
        return serve

    return register


@behaviour("good", "delivered")
def good(peer: Peer) -> None:
    while peer.request():
        peer.answer()


@behaviour("silent", "unknown")
def silent(peer: Peer) -> None:
    peer.hold()


@behaviour("close-at-once", "unknown", "connect_error")
def _close_at_once(peer: Peer) -> None:
    peer.sock.shutdown(socket.SHUT_RDWR)


@behaviour("reset-at-once", "unknown", "connect_error")
def _reset_at_once(peer: Peer) -> None:
    peer.reset()


@behaviour("reset-after-request", "unknown")
def _reset_after_request(peer: Peer) -> None:
    peer.request()
    peer.reset()


@behaviour("half-close", "unknown")
def _half_close(peer: Peer) -> None:
    peer.request()
    peer.sock.shutdown(socket.SHUT_WR)
    peer.hold()


@behaviour("gzip-bomb", "delivered", cut="size")
def _gzip_bomb(peer: Peer) -> None:
    bomb = gzip.compress(b"\0" * 1_000_000) * 100  # members of one megabyte, from one kilobyte each
    peer.request()
    peer.answer("200 OK", "Content-Encoding: gzip", body=bomb)


@behaviour("echo", "protocol_error")
def _echo(peer: Peer) -> None:
    peer.send(peer.request())


@behaviour("answers-without-reading", "delivered")
def _answers_without_reading(peer: Peer) -> None:
    peer.answer()
    peer.hold()


@behaviour("closes-kept-connections", "delivered")
def _closes_kept_connections(peer: Peer) -> None:
    peer.request()
    peer.answer()
    peer.request()


@behaviour("unasked-second-answer", "delivered")
def _unasked_second_answer(peer: Peer) -> None:
    for number in count():
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * (1 if number else 2))
