"""Receivers that read the request, send some odd bytes and close: a table of those bytes.

Each row: name, the bytes, the outcome that is right, and why the kept response is not whole.
"""

from __future__ import annotations

from bench.hostile.behaviours import Behaviour, Serve
from bench.hostile.peer import Peer

Row = tuple[str, bytes, str, str | None]


def http(status: str, *headers: str, body: str = "") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", body]).encode("latin-1")


_EMPTY = "Content-Length: 0"
_MOVED = "Location: http://127.0.0.1:1/"
_CODED = "Transfer-Encoding: chunked"
_CHUNKED = http("200 OK", _CODED)

STATUSES: list[Row] = [
    ("status-204", http("204 No Content", "Content-Length: 5"), "delivered", None),
    ("status-299", http("299 Fine", _EMPTY), "delivered", None),
    ("status-410", http("410 Gone", _EMPTY), "gone", None),
    ("status-101", http("101 Switching Protocols", "Upgrade: tcp"), "http_error", "framing"),
    ("continue-then-200", http("100 Continue") + http("200 OK"), "delivered", None),
    ("hints-then-200", http("103 Early Hints", "Link: x") + http("200 OK"), "delivered", None),
    ("refresh", http("200 OK", "Refresh: 0; url=http://127.0.0.1:1/"), "delivered", None),
    *(
        (f"redirect-{status}", http(f"{status} Moved", _MOVED, _EMPTY), "http_error", None)
        for status in (300, 301, 302, 303, 304, 307, 308)
    ),
    *(
        (f"status-{status}", http(f"{status} No", _EMPTY), "http_error", None)
        for status in (400, 401, 404, 407, 429, 500, 503, 599, 999)
    ),
]
RETRY_AFTER: list[Row] = [
    (f"retry-after-{name}", http("503 Later", f"Retry-After: {value}", _EMPTY), "http_error", None)
    for name, value in (
        ("zero", "0"),
        ("a-century", "3153600000"),
        ("of-a-thousand-digits", "9" * 1000),
        ("negative", "-60"),
        ("fraction", "0.5"),
        ("infinity", "inf"),
        ("empty", ""),
        ("words", "tomorrow, perhaps"),
        ("date", "Fri, 31 Dec 2999 23:59:59 GMT"),
        ("date-past", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("date-of-year-zero", "Sun, 00 Jan 0000 99:99:99 GMT"),
        ("bytes", "\xff\0"),
        ("twice", "1\r\nRetry-After: 99999999"),
    )
]
CUT_SHORT: list[Row] = [
    ("cut-status-line", b"HTTP/1.1 200", "unknown", None),
    ("cut-headers", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "unknown", None),
    ("cut-body", http("200 OK", "Content-Length: 9", body="x"), "delivered", "peer"),
    ("cut-chunk", _CHUNKED + b"5\r\nhel", "delivered", "peer"),
]
ODD_FRAMES: list[Row] = [
    ("two-lengths", http("200 OK", "Content-Length: 1", "Content-Length: 2"), "delivered", "framing"),
    ("negative-length", http("200 OK", "Content-Length: -1"), "delivered", "framing"),
    ("signed-length", http("200 OK", "Content-Length: +1"), "delivered", "framing"),
    ("length-and-chunked", http("200 OK", "Content-Length: 1", _CODED), "delivered", "framing"),
    ("unknown-coding", http("200 OK", "Transfer-Encoding: gzip, chunked"), "delivered", "framing"),
    ("chunk-without-size", _CHUNKED + b"zz\r\n", "delivered", "framing"),
    ("chunk-with-a-sign", _CHUNKED + b"-1\r\n", "delivered", "framing"),
    ("chunk-too-long", _CHUNKED + b"1\r\nxyz\r\n0\r\n\r\n", "delivered", "framing"),
    ("chunk-of-an-exabyte", _CHUNKED + b"fffffffffffffff\r\n" + b"x" * 99_999, "delivered", "size"),
]
NOT_HTTP: list[Row] = [
    ("http-2", b"HTTP/2 200 OK\r\n\r\n", "protocol_error", None),
    ("http-0.9", b"<html>hello</html>\r\n", "protocol_error", None),
    ("status-000", b"HTTP/1.1 000 Zero\r\n\r\n", "protocol_error", None),
    ("status-1000", b"HTTP/1.1 1000 Thousand\r\n\r\n", "protocol_error", None),
    ("status-without-number", b"HTTP/1.1 OK\r\n\r\n", "protocol_error", None),
    ("ssh", b"SSH-2.0-OpenSSH_9.2\r\n", "protocol_error", None),
    ("smtp", b"220 mail.test ESMTP\r\n", "protocol_error", None),
]
ODD_BUT_FINE: list[Row] = [
    ("bare-line-feeds", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "delivered", None),
    ("nul-bytes", http("200 O\0K", "X: \0", body="\0\0"), "delivered", None),
    ("strange-header-lines", http("200 OK", "no colon", " folded", ": x"), "delivered", None),
    ("no-reason", b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "delivered", None),
    ("http-1.0", b"HTTP/1.0 200 OK\r\n\r\nok", "delivered", None),
]


def _sends(response: bytes) -> Serve:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(response)

    return serve


ODD_RESPONSES: dict[str, Behaviour] = {
    name: Behaviour(_sends(response), (outcome,), cut)
    for table in (STATUSES, RETRY_AFTER, CUT_SHORT, ODD_FRAMES, NOT_HTTP, ODD_BUT_FINE)
    for name, response, outcome, cut in table
}
