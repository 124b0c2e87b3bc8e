"""Bodies and heads without an end, and clients that wait for leave: one answer, then the end."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.app.process import Gunicorn
from tests.app.rig import PARTNER, environ
from tests.app.server.test_sockets import CHUNKED, CLOSE, HEAD, LIMIT, TASK, chunk, problem, sized

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: rvq\r\n\r\n"
WRONG_TOKEN = b"wrong-token-0123456789"
EXPECT = b"Expect: 100-continue\r\n"
BROKEN = [
    b"zz\r\n",
    b"-1\r\n",
    chunk(TASK)[:-2] + b"0\r\n\r\n",
    chunk(TASK) + b"0\r\nContent-Length: 5\r\n\r\n",
    chunk(TASK) + b"0\r\nno colon\r\n\r\n",
    chunk(TASK) + b"0\r\nX: \0\r\n\r\n",
    chunk(TASK) + b"0\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
]

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(scope="module")
def rvq(database_url: str, tmp_path_factory: pytest.TempPathFactory, served_by: str) -> Iterator[Gunicorn]:
    settings = environ(database_url, APP_DB_POOL="2", APP_PROCESSES="1")
    process = Gunicorn(settings, tmp_path_factory.mktemp("gunicorn"), served_by)
    process.wait_ready()
    yield process
    process.stop()


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", received)]


def unauthorized(head: bytes) -> bytes:
    return head.replace(PARTNER.encode(), WRONG_TOKEN)


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:50]))
def test_after_a_broken_body_comes_its_400_and_the_end(rvq: Gunicorn, body: bytes) -> None:
    received = rvq.talk(CHUNKED + b"\r\n" + body + HEALTH)
    assert problem(received) == (400, "malformed_body")
    assert statuses(received) == [400]
    assert b"\r\nconnection: close\r\n" in received.lower()
    assert rvq.call("GET", "/v1/tasks", token=PARTNER).json["items"] == []


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:50]))
def test_a_refused_request_with_a_broken_body_has_one_answer(rvq: Gunicorn, body: bytes) -> None:
    received = rvq.talk(unauthorized(CHUNKED) + b"\r\n" + body + HEALTH)
    assert statuses(received) == [401]


@pytest.mark.parametrize("endless", [b"X: " + b"y" * 65536, b"X: y\r\n" * 10000], ids=["one", "many"])
def test_endless_trailers_of_a_stranger_are_not_read_to_their_end(rvq: Gunicorn, endless: bytes) -> None:
    before = rvq.memory()
    with socket.create_connection(("127.0.0.1", rvq.port), timeout=60) as connection:
        connection.sendall(unauthorized(CHUNKED) + b"\r\n0\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(25_000_000 // len(endless)):
                connection.sendall(endless)
        with contextlib.suppress(ConnectionError):
            assert statuses(connection.makefile("rb").read()) == [401]
    assert rvq.memory() - before < 4 << 20
    assert rvq.call("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (unauthorized(HEAD) + sized(len(TASK)), 401),
        (unauthorized(CHUNKED), 401),
        (HEAD.replace(b"/json", b"/xml") + sized(len(TASK)), 415),
        (HEAD + sized(LIMIT + 1), 413),
        (HEAD.replace(b"/tasks", b"/nothing") + sized(len(TASK)), 404),
    ],
)
def test_who_asks_first_is_not_invited_to_send_what_nobody_reads(
    rvq: Gunicorn, head: bytes, expected: int
) -> None:
    with socket.create_connection(("127.0.0.1", rvq.port), timeout=30) as connection:
        connection.sendall(head + EXPECT + b"\r\n")
        received = connection.makefile("rb").read()
    assert statuses(received) == [expected]
    assert b"\r\nconnection: close\r\n" in received.lower()


def test_what_is_sent_without_waiting_for_leave_is_read_too(rvq: Gunicorn) -> None:
    assert statuses(rvq.talk(HEAD + sized(len(TASK)) + CLOSE + EXPECT + b"\r\n" + TASK))[-1] == 201


@pytest.mark.fast_server  # Gunicorn's own threads wait for the rest of a head: nginx has it whole
def test_more_half_heads_than_threads_hold_up_nobody_and_may_still_be_completed(rvq: Gunicorn) -> None:
    with contextlib.ExitStack() as stack:
        halves = []
        for _ in range(100):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", rvq.port), timeout=30))
            half.sendall(HEALTH[:20])
            halves.append(half)
        assert rvq.call("GET", "/healthz").status == 200
        for byte in HEALTH[20:]:
            halves[0].sendall(bytes([byte]))
        for half in halves[1:]:
            half.sendall(HEALTH[20:])
        for half in halves:
            assert half.recv(12) == b"HTTP/1.1 200"


def test_a_head_has_a_bound_also_before_its_end_has_come(rvq: Gunicorn) -> None:
    field = b"X-Long: " + b"x" * 8000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", rvq.port), timeout=30) as connection:
        answers: list[bytes] = []
        reader = threading.Thread(target=lambda: answers.append(connection.makefile("rb").read()))
        reader.start()
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: rvq\r\n")
            for _ in range(110):
                connection.sendall(field)
            connection.sendall(b"\r\n")
        reader.join(30)
    assert problem(answers[0]) == (431, "headers_too_large")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /healthz HTTP/1.1\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a/b\r\n", 400),
        (b"GET /healthz HTTP/1.0\r\n", 200),
        (b"GET http://other/healthz HTTP/1.1\r\nHost: rvq\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: rvq\r\nSCRIPT_NAME: /x\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: rvq\r\nTransfer-Encoding: gzip\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: rvq\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n", 400),
        (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: rvq\r\n", 414),
    ],
    ids=lambda value: repr(value)[-40:],
)
def test_a_head_is_taken_or_refused_as_rfc_9112_says(rvq: Gunicorn, head: bytes, expected: int) -> None:
    assert statuses(rvq.talk(head + CLOSE + b"\r\n")) == [expected]
