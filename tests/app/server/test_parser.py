"""What is read in one step is what Gunicorn itself would have read; everything else is left to it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from gunicorn.config import Config  # type: ignore[import-untyped]
from gunicorn.http import wsgi  # type: ignore[import-untyped]
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]
from gunicorn.http.parser import RequestParser  # type: ignore[import-untyped]
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.server.adapters import complete_request
from app.server.connection import Connection
from app.server.parser import HeadIncomplete, Parser, PlainRequest

CLIENT, SERVER = ("127.0.0.1", 50000), ("127.0.0.1", 8000)
# Only Gunicorn adds these, and no handler reads them.
GUNICORNS_OWN = {"gunicorn.socket", "RAW_URI", "wsgi.early_hints", "wsgi.input", "wsgi.errors"}
CFG = Config()
CFG.set("http_parser", "fast")
BODY = b'{"limit":1}'
PLAIN = b"POST /v1/sub_tasks/claim?a=b HTTP/1.1\r\nHost: rvq\r\nAuthorization: Bearer x\r\n"

NAMES = """
    Host host Content-Length content-length Content-Type Connection Transfer-Encoding Expect Upgrade
    X-Forwarded-Proto X-Forwarded-For X_Forwarded_For Content_Length Authorization Accept Idempotency-Key
    SCRIPT_NAME Script-Name PATH_INFO HTTP2-Settings Proxy X-Ünknown
"""
VALUES = """
    rvq 0 3 11 +3 -1 3,3 0x3 99999999999999999999 keep-alive Keep-Alive close Upgrade chunked identity
    100-continue websocket https http on application/json
"""
PATHS = """
    / /v1/tasks /v1/tasks?limit=2 //evil/x /a%2Fb /a%00b /ä /v1/tasks?a#b #x * http://other/v1/tasks /.. /a;b
"""
names, paths = (st.sampled_from(words.split()) for words in (NAMES, PATHS))
values = st.sampled_from(VALUES.split()) | st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=12
)
requests = st.builds(
    lambda method, path, version, headers, body: (
        f"{method} {path} {version}\r\n"
        + "".join(f"{name}:{value}\r\n" for name, value in headers)
        + f"\r\n{body}"
    ).encode("latin-1"),
    st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "get", "PRI"]),
    paths,
    st.sampled_from(["HTTP/1.1"] * 4 + ["HTTP/1.0", "HTTP/2.0"]),
    st.lists(st.tuples(names, values), max_size=6),
    st.sampled_from(["", "abc", '{"limit":1}', "3\r\nabc\r\n0\r\n\r\n", "abcGET / HTTP/1.1\r\n\r\n"]),
)


def ours(pieces: list[bytes]) -> Parser:
    return Parser(CFG, iter(pieces), CLIENT, Connection(CFG, _Socket(), CLIENT, SERVER).base())


class _Socket:
    def setblocking(self, _flag: bool) -> None: ...

    def send(self, _data: bytes) -> None: ...


class _Reply:
    headers_sent = False

    def __init__(self, *_args: Any) -> None: ...


def read_all(parser: Any) -> list[Any]:
    """Return each request's environ and body, and at the end the name of what ended the input."""
    found: list[Any] = []
    try:
        while True:
            try:
                request = next(parser)
            except HeadIncomplete:
                continue
            if not isinstance(parser, Parser):
                complete_request(request)
            environ = environ_of(request)
            found.append((environ, request.body.read(10_000), request.should_close()))
            if request.should_close():
                return found
    except Exception as error:
        return [*found, type(error).__name__]


def environ_of(request: Any) -> dict[str, Any]:
    if isinstance(request, PlainRequest):
        environ = request.environ
    else:
        _, environ = wsgi.create(request, _Socket(), CLIENT, SERVER, CFG, response_class=_Reply)
        environ["wsgi.multithread"] = True
    return {name: value for name, value in environ.items() if name not in GUNICORNS_OWN}


@given(request=requests, cut=st.integers(0, 200), again=st.booleans())
@example(PLAIN + b"Content-Length: 11\r\n\r\n" + BODY, 0, True)
@example(PLAIN + b"Content-Length: 11\r\nContent-Length: 3\r\n\r\n" + BODY, 0, False)
@example(PLAIN + b"Content-Length: 11\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY, 0, False)
@settings(max_examples=1000, deadline=None)
def test_any_bytes_are_read_as_gunicorn_alone_reads_them(request: bytes, cut: int, again: bool) -> None:
    data = request * 2 if again else request
    pieces = [piece for piece in (data[:cut], data[cut:]) if piece]
    assert read_all(ours(pieces)) == read_all(RequestParser(CFG, iter(pieces), CLIENT))


@pytest.mark.parametrize(
    "more",
    [
        b"",
        b"Connection: keep-alive\r\n",
        b"Content-Type: application/json\r\nIdempotency-Key: a key\r\nX-Request-Id: 1\r\n",
        b"X-Forwarded-For: 192.0.2.1\r\n",
    ],
)
def test_what_clients_and_proxies_usually_send_is_plain(more: bytes) -> None:
    sent = PLAIN + more + b"Content-Length: 11\r\n\r\n" + BODY
    parser = ours([sent * 2, sent])
    for _ in range(3):
        request = next(parser)
        assert isinstance(request, PlainRequest)
        assert request.environ["wsgi.input"].read(11) == BODY


@pytest.mark.parametrize(
    "more",
    [
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"X-Forwarded-Proto: https\r\n",
        b"Authorization: Bearer y\r\n",
        b"X_Request_Id: 1\r\n",
        b"Content-Length: 11\r\n",
    ],
)
def test_what_is_not_plain_is_left_to_gunicorn(more: bytes) -> None:
    parser = ours([PLAIN + b"Content-Length: 11\r\n" + more + b"\r\n" + BODY])
    request = None
    with contextlib.suppress(ParseException):
        request = next(parser)
    assert not isinstance(request, PlainRequest)


def test_a_body_that_comes_in_pieces_is_read_from_the_connection() -> None:
    head = PLAIN + b"Content-Length: 11\r\n\r\n"
    request = next(ours([head, BODY[:4], BODY[4:]]))
    assert isinstance(request, PlainRequest)
    assert request.body.read(11) == BODY
