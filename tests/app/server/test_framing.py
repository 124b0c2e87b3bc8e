"""Requests whose framing is wrong, or nearly: one answer each, never a 500, and no more once it is lost.

`RVQ_FRAMING=100000` sends so many requests instead of a few thousand (`make framing`); `RVQ_FRAMING_SEED` has
others sent.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from random import Random

import pytest

from tests.app.process import Gunicorn
from tests.app.rig import environ
from tests.app.server.framing_model import Expected, expect
from tests.app.server.framing_streams import make_stream

REQUESTS = int(os.environ.get("RVQ_FRAMING", "4000"))
SEED = os.environ.get("RVQ_FRAMING_SEED", "1")
CLIENTS = 8
# All these requests are small: what grows is what each thread needs once.
MEMORY = 32 << 20
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(scope="module")
def rvq(database_url: str, tmp_path_factory: pytest.TempPathFactory, served_by: str) -> Iterator[Gunicorn]:
    settings = environ(database_url, APP_DB_POOL="4", APP_PROCESSES="1")
    process = Gunicorn(settings, tmp_path_factory.mktemp("gunicorn"), served_by)
    process.wait_ready()
    yield process
    process.stop()


def talk(server: Gunicorn, stream: bytes, random: Random) -> bytes:
    """Send a stream in pieces and close this side; return all answers."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        at = 0
        while at < len(stream):
            piece = stream[at : at + random.choice((3, 50, 500, 5000, 100_000))]
            connection.sendall(piece)
            at += len(piece)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while more := connection.recv(65536):
            received += more
        return received


def check(received: bytes, stream: bytes) -> int:
    """Compare answers with the model's; return how many there were."""
    answered = 0
    for expected in expect(stream):
        if not expected.statuses:
            assert b"HTTP/1.1 5" not in received
            return answered + 1
        status, closes, received = take_answer(received, expected)
        assert status in expected.statuses, (status, expected)
        answered += 1
        # A body that nobody read is found broken only when its answer is under way.
        assert closes or not (expected.closes and status == 400), (
            "a 400 keeps a connection open that can't go on"
        )
        assert not closes or expected.closes is not False, (status, expected)
        if closes:
            break
    assert not received, "an answer to nothing"
    return answered


def take_answer(received: bytes, expected: Expected) -> tuple[int, bool, bytes]:
    """Return the status of the first answer, whether it is the last, and what follows it."""
    head, end, rest = received.removeprefix(INTERIM).partition(b"\r\n\r\n")
    assert end, f"no answer, but {expected}"
    line, *lines = head.split(b"\r\n")
    found = re.fullmatch(rb"HTTP/1\.[01] ([0-9]{3}) [ -~]+", line)
    assert found, line
    fields = {name.lower(): value.strip() for name, _, value in (one.partition(b":") for one in lines)}
    length = int(fields.get(b"content-length", 0))
    if expected.method == b"HEAD" and int(found[1]) not in (400, 414, 431):
        length = 0
    assert len(rest) >= length, "a cut answer"
    return int(found[1]), fields[b"connection"].lower() == b"close", rest[length:]


def run(server: Gunicorn, seed: str, requests: int) -> int:
    random = Random(seed)
    answered = 0
    while answered < requests:
        stream = make_stream(random)
        received = talk(server, stream, random)
        try:
            answered += check(received, stream)
        except AssertionError as error:
            raise AssertionError(f"{error}\nsent {stream!r}\ngot {received!r}") from None
    return answered


def test_any_framing_is_answered_as_rfc_9112_says(rvq: Gunicorn) -> None:
    before = rvq.memory()
    with ThreadPoolExecutor(CLIENTS) as clients:
        seeds = [f"{SEED}/{number}" for number in range(CLIENTS)]
        answered = sum(clients.map(run, repeat(rvq), seeds, repeat(REQUESTS // CLIENTS)))
    assert answered >= REQUESTS
    assert '"level": "error"' not in rvq.log
    assert rvq.memory("VmHWM") - before < MEMORY
