"""Clients that are slow to take their responses: they hold no thread, and get every byte in the end."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.app.process import Gunicorn
from tests.app.rig import PARTNER, WORKER
from tests.support.concurrency import wait_until
from tests.support.database import Database

Start = Callable[..., Gunicorn]

CLAIM = b'{"worker_id":"w","limit":16}'
SUB_TASKS, PAYLOAD = 16, "x" * 250_000
TASK = json.dumps({"sub_tasks": [{"payload": PAYLOAD}] * SUB_TASKS}).encode()
# The threads of one process with two connections: 2 for them, 12 that may wait, 8 to spare.
THREADS = 22

# Gunicorn's own threads wait for slow readers: in production nginx takes their answers.
pytestmark = [pytest.mark.usefixtures("database"), pytest.mark.fast_server]


def request(method: str, path: str, body: bytes, token: str) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: rvq\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@contextlib.contextmanager
def slow_reader(server: Gunicorn, sent: bytes) -> Iterator[socket.socket]:
    """Yield a client that has sent its request and read the beginning of its response."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(60)
        client.connect(("127.0.0.1", server.port))
        client.sendall(sent)
        assert client.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL) == b"HTTP/1.1 200"
        yield client


def payloads(client: socket.socket) -> list[str]:
    """Read one response to its end; return the payloads of its sub_tasks."""
    with client.makefile("rb") as response:
        length = 0
        while line := response.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        document = json.loads(response.read(length))
    return [sub_task["payload"] for sub_task in document.get("sub_tasks", document.get("items"))]


def start_with_a_large_task(gunicorn: Start, tasks: int = 1) -> tuple[Gunicorn, bytes]:
    """Start a server; return it and a request for the sub_tasks of a large task."""
    server = gunicorn(APP_DB_POOL="2", APP_PROCESSES="1")
    made = [server.call("POST", "/v1/tasks", TASK, token=PARTNER) for _ in range(tasks)]
    task_id = json.loads(made[0].body)["id"]
    return server, request("GET", f"/v1/tasks/{task_id}/sub_tasks", b"", PARTNER)


def test_more_slow_readers_than_threads_hold_up_nobody_and_get_every_byte(gunicorn: Start) -> None:
    server, listing = start_with_a_large_task(gunicorn, tasks=2)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(slow_reader(server, listing)) for _ in range(THREADS)]
        claim = request("POST", "/v1/sub_tasks/claim", CLAIM, WORKER)
        readers += [stack.enter_context(slow_reader(server, claim)) for _ in range(2)]
        assert server.call("GET", "/healthz").status == 200
        assert server.call("POST", "/v1/sub_tasks/claim", CLAIM, token=WORKER).status == 200
        for reader in readers:
            assert payloads(reader) == [PAYLOAD] * SUB_TASKS
            reader.sendall(listing)
            assert payloads(reader) == [PAYLOAD] * SUB_TASKS


def test_a_stop_waits_until_a_slow_reader_has_its_response(gunicorn: Start) -> None:
    server, listing = start_with_a_large_task(gunicorn)
    with slow_reader(server, listing) as reader:
        server.signal(signal.SIGTERM)
        wait_until(lambda: refuses(server), "nobody else is let in")
        assert payloads(reader) == [PAYLOAD] * SUB_TASKS
        assert reader.recv(1) == b""
    assert server.wait() == 0


def refuses(server: Gunicorn) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port)).close()
        return False
    return True


@pytest.mark.slow
def test_a_client_that_takes_nothing_for_long_is_cut_off(gunicorn: Start) -> None:
    server, listing = start_with_a_large_task(gunicorn)
    with slow_reader(server, listing) as reader:
        wait_until(lambda: connections_of(server) == 0, "it is cut off", 40)
        with pytest.raises((ConnectionResetError, json.JSONDecodeError)):
            payloads(reader)
    assert server.call("GET", "/healthz").status == 200


def connections_of(server: Gunicorn) -> int:
    """Return how many connections clients have with its one process."""
    (child,) = server.children()
    rows = Path(f"/proc/{child}/net/tcp").read_text().splitlines()[1:]
    port = f":{server.port:04X}"
    return sum(row.split()[1].endswith(port) and row.split()[3] == "01" for row in rows)


def test_requests_sent_at_once_are_answered_in_order_also_when_they_share_batches(
    gunicorn: Start, database: Database
) -> None:
    server = gunicorn(APP_DB_POOL="2", APP_PROCESSES="1")
    bodies = [b'{"sub_tasks":[{"payload":1}],"metadata":{"n":%d}}' % number for number in range(20)]
    pipeline = b"".join(request("POST", "/v1/tasks", body, PARTNER) for body in bodies)
    last = b"GET /healthz HTTP/1.1\r\nHost: rvq\r\nConnection: close\r\n\r\n"
    with ThreadPoolExecutor(8) as clients:
        responses = list(clients.map(lambda _: server.talk(pipeline + last), range(8)))
    for response in responses:
        assert response.count(b"HTTP/1.1 201 Created\r\n") == len(bodies)
        found = [response.index(b'"metadata":{"n":%d}' % number) for number in range(len(bodies))]
        assert found == sorted(found)
    assert database.value("SELECT count(*) FROM rvq.tasks") == 8 * len(bodies)
