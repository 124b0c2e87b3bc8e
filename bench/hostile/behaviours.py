"""What hostile, broken and odd receivers do, each with the outcomes that a sound sender reports.

`cut` is why the answer that was kept is not whole. Drips are far slower than any deadline of the tests.
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


BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(name: str, *outcomes: str, cut: str | None = None) -> Callable[[Serve], Serve]:
    """Registers a function, which is called for each connection."""

    def register(serve: Serve) -> Serve:
        BEHAVIOURS[name] = Behaviour(serve, outcomes, cut)
        return serve

    return register


@behaviour("good", "delivered")
def _good(peer: Peer) -> None:
    while peer.request():
        peer.answer()


@behaviour("silent", "unknown")
def _silent(peer: Peer) -> None:
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


@behaviour("drip-status-line", "unknown")
def _drip_status_line(peer: Peer) -> None:
    peer.request()
    peer.drip(b"HTTP/1.1 200 " + b"O" * 100_000)


@behaviour("drip-headers", "unknown")
def _drip_headers(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\n")
    peer.drip_forever(b"X: y\r\n")


@behaviour("drip-body", "delivered", cut="deadline")
def _drip_body(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    peer.drip_forever(b"x")


@behaviour("drip-body-of-a-failure", "http_error", cut="deadline")
def _drip_body_of_a_failure(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 500 Oops\r\n\r\n")
    peer.drip_forever(b"x")


@behaviour("drip-chunks", "delivered", cut="deadline")
def _drip_chunks(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    peer.drip_forever(b"1\r\nx\r\n")


@behaviour("drip-trailers", "delivered", cut="deadline")
def _drip_trailers(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    peer.drip_forever(b"X: y\r\n")


@behaviour("drip-continues", "unknown")
def _drip_continues(peer: Peer) -> None:
    peer.request()
    peer.drip_forever(b"HTTP/1.1 100 Continue\r\n\r\n")


@behaviour("flood-of-continues", "protocol_error")
def _flood_of_continues(peer: Peer) -> None:
    peer.request()
    peer.flood(b"HTTP/1.1 100 Continue\r\n\r\n")


@behaviour("endless-status-line", "protocol_error")
def _endless_status_line(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 ")
    peer.flood(b"O" * 4096)


@behaviour("endless-headers", "protocol_error")
def _endless_headers(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\n")
    peer.flood(b"X-Filler: " + b"y" * 1000 + b"\r\n")


@behaviour("endless-body", "delivered", cut="size")
def _endless_body(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.flood(b"z" * 65536)


@behaviour("endless-chunks", "delivered", cut="size")
def _endless_chunks(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    peer.flood(b"5\r\nhello\r\n")


@behaviour("endless-chunk-extension", "delivered", cut="size")
def _endless_chunk_extension(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=")
    peer.flood(b"y" * 4096)


@behaviour("redirect-with-an-endless-body", "http_error", cut="size")
def _redirect_with_an_endless_body(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
    peer.flood(b"z" * 65536)


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
