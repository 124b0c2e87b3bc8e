"""The load's HTTP client against answers in pieces, without an end, and none at all; and its bodies."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from bench.gate.bodies import complete_body, create_bodies, documents
from bench.gate.http import Connection, HttpError


@contextmanager
def server(*answers: Sequence[bytes]) -> Iterator[int]:
    """One connection after the other; to each request the next answer, sent in these pieces, b"" closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, list(answers)))
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def _serve(listener: socket.socket, answers: list[Sequence[bytes]]) -> None:
    while answers:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while answers and connection.recv(65536):
                pieces = answers.pop(0)
                for piece in pieces:
                    connection.sendall(piece)
                if b"" in pieces:
                    break


def connection_to(port: int) -> Connection:
    return Connection("127.0.0.1", port, "token", timeout=5)


def test_answers_in_pieces_over_one_kept_connection() -> None:
    first = (b"HTTP/1.1 201 Created\r\nContent-", b"Length: 5\r\n\r", b"\nhe", b"llo")
    with server(first, (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",)) as port:
        connection = connection_to(port)
        assert connection.post(b"/a", b"{}") == (201, b"hello")
        assert connection.post(b"/b", b"{}") == (200, b"")
        connection.close()


@pytest.mark.parametrize(
    "answer",
    [(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", b""), (b"",), (b"HTTP/1.1 200 OK\r\n\r\n", b"")],
)
def test_a_cut_or_endless_answer_is_an_error_and_the_next_request_has_a_new_connection(
    answer: Sequence[bytes],
) -> None:
    with server(answer, (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",)) as port:
        connection = connection_to(port)
        with pytest.raises(HttpError):
            connection.post(b"/", b"{}")
        assert connection.post(b"/", b"{}") == (200, b"ok")
        connection.close()


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(HttpError, match="refused"):
        connection_to(1).post(b"/", b"{}")


def test_payloads_are_json_of_sizes_all_over_the_range() -> None:
    made = documents((200, 2000), seed=1)
    sizes = [len(document) for document in made]
    assert min(sizes) >= 200
    assert max(sizes) <= 2000
    assert max(sizes) - min(sizes) > 1500
    assert all(isinstance(json.loads(document)["text"], str) for document in made)
    assert documents((200, 2000), seed=1) == made


def test_requests_are_what_the_contract_asks_for() -> None:
    created = json.loads(next(create_bodies(2, (200, 300), "http://127.0.0.1:9000/hook")))
    assert len(created["sub_tasks"]) == 2
    assert created["webhook_url"] == "http://127.0.0.1:9000/hook"
    completed = json.loads(complete_body("w", [("sub_1", "t1"), ("sub_2", "t2")], iter([b"1.10", b"{}"])))
    assert [(r["id"], r["lease_token"], r["status"]) for r in completed["results"]] == [
        ("sub_1", "t1", "succeeded"),
        ("sub_2", "t2", "succeeded"),
    ]
