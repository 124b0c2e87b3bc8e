"""What only shows on a socket: chunks, cut bodies, pipelining, and requests that are not HTTP."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from functools import partial

import pytest

from tests.app.process import Gunicorn
from tests.app.rig import PARTNER, environ

LIMIT = 16 * 1024 * 1024
HEAD = (
    "POST /v1/tasks HTTP/1.1\r\nHost: rvq\r\nContent-Type: application/json\r\n"
    f"Authorization: Bearer {PARTNER}\r\n"
).encode()
TASK = b'{"sub_tasks":[{"payload":1}]}'
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
CLOSE = b"Connection: close\r\n"


pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(scope="module")
def rvq(database_url: str, tmp_path_factory: pytest.TempPathFactory, served_by: str) -> Iterator[Gunicorn]:
    """Yield one server for the whole module: whatever a client does, it serves the next one."""
    settings = environ(database_url, APP_DB_POOL="4", APP_PROCESSES="1")
    process = Gunicorn(settings, tmp_path_factory.mktemp("gunicorn"), served_by)
    process.wait_ready()
    yield process
    process.stop()


def sized(length: int) -> bytes:
    return b"Content-Length: %d\r\n" % length


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def problem(response: bytes) -> tuple[int, str]:
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"X-Request-Id: " in head
    return status(response), json.loads(body)["code"]


def test_a_chunked_body_is_read(rvq: Gunicorn) -> None:
    pieces = [chunk(TASK[at : at + 3]) for at in range(0, len(TASK), 3)]
    assert status(rvq.talk(CHUNKED + CLOSE + b"\r\n", *pieces, b"0\r\n\r\n")) == 201


def test_a_chunked_body_over_the_limit_is_413(rvq: Gunicorn) -> None:
    megabyte = chunk(b" " * 1024 * 1024)
    with socket.create_connection(("127.0.0.1", rvq.port), timeout=30) as connection:
        connection.sendall(CHUNKED + CLOSE + b"\r\n")
        for _ in range(17):
            connection.sendall(megabyte)
        assert problem(connection.makefile("rb").read()) == (413, "body_too_large")


def test_a_body_over_the_limit_is_413_before_it_is_sent(rvq: Gunicorn) -> None:
    with socket.create_connection(("127.0.0.1", rvq.port), timeout=30) as connection:
        connection.sendall(HEAD + sized(LIMIT + 1) + CLOSE + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize(
    "request_bytes",
    [
        HEAD + sized(100) + CLOSE + b"\r\n" + TASK,
        CHUNKED + CLOSE + b"\r\n" + chunk(TASK),
        CHUNKED + CLOSE + b"\r\n" + b"ff\r\n" + TASK,
        CHUNKED + CLOSE + b"\r\n" + b"zz\r\n" + TASK,
        CHUNKED + CLOSE + b"\r\n" + chunk(TASK)[:-2] + b"xx0\r\n\r\n",
    ],
    ids=["shorter", "no last chunk", "cut chunk", "size is no number", "no line end"],
)
def test_a_cut_or_broken_body_is_400(rvq: Gunicorn, request_bytes: bytes) -> None:
    assert problem(rvq.talk(request_bytes, half_close=True)) == (400, "malformed_body")
    assert rvq.call("GET", "/v1/tasks", token=PARTNER).json["items"] == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /v1/stats HTTP/9.9\r\n\r\n",
        b"GET /v1/stats HTTP/1.1\r\nBad Header: x\r\n\r\n",
        HEAD + b"Content-Length: x\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nX-A: " + b"b" * 20000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda request: repr(request[-30:]),
)
def test_what_is_not_http_is_a_problem_and_no_page(rvq: Gunicorn, request_bytes: bytes) -> None:
    response = rvq.talk(request_bytes, half_close=True)
    code, _ = problem(response) if response else (400, "")
    assert 400 <= code < 500
    assert b"<html" not in response
    assert rvq.call("GET", "/healthz").status == 200


@pytest.mark.fast_server  # gthread does not look at what it has read ahead
def test_requests_sent_at_once_are_answered_in_order(rvq: Gunicorn) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: rvq\r\n\r\n"
    create = HEAD + sized(len(TASK)) + b"\r\n" + TASK
    last = b"GET /healthz HTTP/1.1\r\nHost: rvq\r\nConnection: close\r\n\r\n"
    response = rvq.talk(one + create + one + last)
    found = [line for line in response.split(b"\r\n") if b"HTTP/1.1" in line]
    assert [status(line[line.index(b"HTTP/1.1") :]) for line in found] == [200, 201, 200, 200]


@pytest.mark.fast_server  # gthread does not look at what it has read ahead
def test_a_connection_goes_on_after_a_refused_body(rvq: Gunicorn) -> None:
    refused = HEAD.replace(PARTNER.encode(), b"wrong-token-0123456789") + sized(len(TASK)) + b"\r\n"
    create = HEAD + sized(len(TASK)) + CLOSE + b"\r\n" + TASK
    with socket.create_connection(("127.0.0.1", rvq.port), timeout=30) as connection:
        connection.sendall(refused)
        assert connection.recv(12) == b"HTTP/1.1 401"
        connection.sendall(TASK + create)
        assert b"HTTP/1.1 201" in connection.makefile("rb").read()


def test_a_client_that_asks_first_is_told_to_go_on(rvq: Gunicorn) -> None:
    request = HEAD + sized(len(TASK)) + CLOSE + b"Expect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", rvq.port), timeout=30) as connection:
        connection.sendall(request)
        assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(TASK)
        assert connection.recv(12) == b"HTTP/1.1 201"


@pytest.mark.slow
@pytest.mark.fast_server
def test_a_client_that_stalls_in_the_middle_of_a_request_holds_its_thread_for_a_while_only(
    rvq: Gunicorn,
) -> None:
    in_the_head, in_the_body = HEAD[:40], HEAD + sized(100) + b"\r\n" + TASK
    with contextlib.ExitStack() as stack:
        connect = partial(socket.create_connection, ("127.0.0.1", rvq.port), timeout=60)
        stalled = [stack.enter_context(connect()) for _ in range(2)]
        for connection, begun in zip(stalled, (in_the_head, in_the_body), strict=True):
            connection.sendall(begun)
        assert stalled[0].recv(100) == b""
        assert problem(stalled[1].makefile("rb").read()) == (400, "malformed_body")
    assert rvq.call("GET", "/healthz").status == 200
