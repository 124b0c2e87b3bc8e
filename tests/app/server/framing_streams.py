"""Streams of requests, most of them nearly right: the faults of real clients, proxies and attacks."""

from __future__ import annotations

from random import Random

from tests.app.rig import PARTNER
from tests.app.server.framing_model import VERIFIED

LINES = [b"POST /v1/webhooks/verify HTTP/1.1"] * 24 + [b"GET /healthz HTTP/1.1"] * 6 + [
    b"HEAD /healthz HTTP/1.1", b"OPTIONS /healthz HTTP/1.1", b"PUT /healthz HTTP/1.1",
    b"DELETE /v1/x HTTP/1.1",
    b"POST /v1/webhooks/verify HTTP/1.0", b"GET /healthz HTTP/1.0", b"GET http://rvq/healthz HTTP/1.1",
    b"OPTIONS * HTTP/1.1", b"GET * HTTP/1.1", b"CONNECT rvq:80 HTTP/1.1", b"GET /healthz",
    b"get /healthz HTTP/1.1",
    b"PRI * HTTP/2.0", b"GET /healthz HTTP/1.2", b"GET  /healthz HTTP/1.1", b"GET /healthz  HTTP/1.1",
    b"GET /" + b"a" * 5000 + b" HTTP/1.1", b"\r\nGET /healthz HTTP/1.1", b"GET /healthz HTTP/1.1\nX: y",
    b"GET /healthz\tHTTP/1.1", b"GET /\0 HTTP/1.1", b"",
]  # fmt: skip
HOSTS = [b"Host: rvq\r\n"] * 20 + [
    b"", b"Host: rvq\r\nHost: rvq\r\n", b"Host: a b\r\n", b"Host:\r\n", b"host: [::1]:80\r\n",
    b"Host: a, b\r\n",
    b"Host : rvq\r\n", b"Host: rvq:x\r\n", b"Host: u@rvq\r\n", b"Host: rvq/..\r\n",
]  # fmt: skip
TOKENS = [f"Authorization: Bearer {PARTNER}\r\n".encode()] * 8 + [
    b"",
    b"Authorization: Bearer wrong-0123456789\r\n",
]
TYPES = [b"Content-Type: application/json\r\n"] * 8 + [b"", b"Content-Type: text/plain\r\n"]
OTHERS = [b""] * 30 + [
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n",
    b"Expect: nothing\r\n",
    b"X: a\r\n b\r\n", b"X: a\0b\r\n", b"X: a\rb\r\n", b"X: a\nY: b\r\n", b"X\r\n", b": x\r\n",
    b"X: \xfc\xff\r\n",
    b"X: " + b"b" * 9000 + b"\r\n", b"X: b\r\n" * 120, (b"X: " + b"b" * 4000 + b"\r\n") * 9, b"X_Y: z\r\n",
    b"X Y: z\r\n",
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", b"Upgrade: websocket\r\n", b"TE: trailers\r\n",
    b"Content_Length: 5\r\n", b"SCRIPT_NAME: /x\r\n", b"PATH_INFO: /x\r\n", b"X\x01: y\r\n", b"X: \x7f\r\n",
]  # fmt: skip
CODINGS = [b"chunked"] * 30 + [
    b"Chunked", b"\tchunked", b"chunked ", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip",
    b"identity", b"gzip",
    b"chunked;q=1", b"xchunked", b"", b",chunked", b"\"chunked\"", b"chunked\x0b",
    b"chunked\r\nTransfer-Encoding: chunked",
    b"chunked\r\nTransfer-Encoding: identity", b"chunked\r\nContent-Length: 0",
    b"chunked\r\nContent-Length: 25",
]  # fmt: skip
LENGTHS = [
    b"+%d", b"-%d", b"0x%d", b"%d, %d", b"%d %d", b"%d.0", b"%d_0", b"%d\xb2", b"00000%d",
    b"9%d9999999999999999999999",
    b"%d\r\nContent-Length: %d", b"%d\r\nContent-Length: 1%d", b"%d\r\nTransfer-Encoding: chunked", b"",
    b"\t%d\t",
    b"%d\r\nTransfer-Encoding: identity", b"99999%d",
]  # fmt: skip
SIZES = [
    b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"000000000%x", b"%x_0", b"zz", b"", b"%x;",
    b"%x ;a=b", b"%x;a=\"b\"",
    b"1000000000000000%x", b"ffffffffffffffff%x", b"%x;" + b"a" * 300, b"%x;a\rb", b"%x;a\0b", b"%xg",
    b"%x\xb2", b"-1",
    b"0" * 250 + b"%x", b"0" * 300 + b"%x",
]  # fmt: skip
TRAILERS = [
    b"X: y\r\n", b"X:\r\nY: z\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Host: x\r\n", b"X\r\n",
    b"Authorization: Bearer x\r\n", b": x\r\n", b" X: y\r\n", b"X: a\0b\r\n", b"X : y\r\n",
    b"X: " + b"y" * 9000 + b"\r\n",
    b"X: y\r\n" * 2000, b"X: y\n", b"X: a\rb\r\n", b"X: " + b"y" * 5000,
]  # fmt: skip
ENDS = [b"\r\n"] * 60 + [b"\n", b"\r", b"", b"\r\n\r\n", b"xx", b"\n\r"]


def make_stream(random: Random) -> bytes:
    """Return some requests, most of which are right but for one thing, perhaps cut or with a byte changed."""
    stream = b"".join(make_request(random) for _ in range(random.choice((1, 1, 2, 3, 5))))
    if random.random() < 0.1:
        stream = stream[: random.randrange(len(stream)) + 1]
    return stream


def make_request(random: Random) -> bytes:
    head = random.choice(LINES) + b"\r\n" + random.choice(HOSTS)
    head += random.choice(TOKENS) + random.choice(TYPES) + random.choice(OTHERS)
    if head.startswith((b"GET", b"HEAD", b"OPTIONS")) and random.random() < 0.8:
        return head + b"\r\n"
    content = random.choice(
        [VERIFIED] * 6 + [b"{}", b"x", b"\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"]
    )
    if random.random() < 0.3:
        return head + b"Content-Length: " + _length(random, content) + b"\r\n\r\n" + content
    return head + b"Transfer-Encoding:" + random.choice(CODINGS) + b"\r\n\r\n" + _chunks(random, content)


def _length(random: Random, content: bytes) -> bytes:
    form = random.choice([b"%d"] * 30 + LENGTHS)
    return form % ((len(content),) * form.count(b"%d"))


def _chunks(random: Random, content: bytes) -> bytes:
    pieces = []
    at = 0
    while at < len(content):
        piece = content[at : at + random.choice((1, 2, 7, 25))]
        at += len(piece)
        form = random.choice([b"%x"] * 100 + [b"%X"] * 20 + SIZES)
        size = form % ((len(piece),) * form.lower().count(b"%x"))
        pieces += [size, random.choice(ENDS), piece, random.choice(ENDS)]
    trailers = random.choice(TRAILERS) if random.random() < 0.15 else b""
    pieces += [
        random.choice([b"0"] * 30 + [b"00", b"0;a=b", b"", b"-0", b"0x0"]),
        random.choice(ENDS),
        trailers,
    ]
    return b"".join(pieces) + random.choice(ENDS)
