"""A header that may come once only, and comes twice: refused, whichever server reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.app.process import Gunicorn
from tests.app.rig import PARTNER
from tests.support.database import Database

BODY = b'{"sub_tasks":[{"payload":1}]}'
SENT = {
    "Host": "rvq",
    "Connection": "close",
    "Authorization": f"Bearer {PARTNER}",
    "Content-Type": "application/json",
    "Idempotency-Key": "a",
    "Content-Length": str(len(BODY)),
    "X-Request-Id": "mine",
}


def create(server: Gunicorn, *more: tuple[str, str]) -> tuple[int, dict[str, Any]]:
    """Create a task with further headers; return the status and the decoded body."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in [*SENT.items(), *more])
    answer = server.talk(f"POST /v1/tasks HTTP/1.1\r\n{lines}\r\n".encode() + BODY)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("again", ["a", "b"])
def test_a_header_that_may_come_once_only_is_refused_when_it_comes_twice(
    gunicorn: Callable[..., Gunicorn], database: Database, again: str
) -> None:
    server = gunicorn()
    for name in ("Idempotency-Key", "idempotency-key"):
        status, problem = create(server, (name, again))
        assert (status, problem["errors"][0]["pointer"]) == (422, "/Idempotency-Key")
    assert create(server, ("Content-Encoding", "identity"), ("Content-Encoding", "identity"))[0] == 415
    assert create(server, ("Authorization", SENT["Authorization"]))[0] == 401
    for name in ("Host", "Content-Length", "Content-Type"):
        assert create(server, (name, SENT[name]))[0] == 400
    assert database.value("SELECT count(*) FROM rvq.tasks") == 0


def test_headers_that_may_come_twice_and_marks_that_a_client_makes_up_change_nothing(
    gunicorn: Callable[..., Gunicorn],
) -> None:
    server = gunicorn()
    for more in (
        [("Accept", "application/json"), ("Accept", "*/*")],
        [("X-Request-Id", "other")],
        [("Repeated-Headers", "IDEMPOTENCY-KEY")],
    ):
        assert create(server, *more)[0] in (200, 201)
    assert create(server, ("Repeated Headers", "IDEMPOTENCY-KEY"))[0] == 400
