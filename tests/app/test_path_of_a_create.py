"""A create takes a short way through the API's files, so that a reader can follow it."""

from __future__ import annotations

import io
import json
import sys
from types import FrameType
from typing import Any

from tests.app.rig import HOOK, PARTNER, Caller
from tests.support.source import ROOT

MOST_MOVES = 20
BODY = json.dumps({"sub_tasks": [{"payload": 1}], "webhook_url": HOOK, "metadata": {"order": 1}}).encode()


class Moves:
    """Calls from one file of app/ into another, while it is the trace function."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        into = file_of(frame)
        if event == "call" and into and (caller := nearest(frame.f_back)) != into:
            self.seen.append((caller, into, frame.f_code.co_name))


def file_of(frame: FrameType) -> str:
    """Return a file of app/ by its name there; "" for any other."""
    name = frame.f_code.co_filename
    return name.removeprefix(f"{ROOT}/app/") if name.startswith(f"{ROOT}/app/") else ""


def nearest(frame: FrameType | None) -> str:
    """Return the file of app/ that called, directly or through a library; "" for the server."""
    while frame and not file_of(frame):
        frame = frame.f_back
    return file_of(frame) if frame else ""


def create(api: Caller) -> bytes:
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/v1/tasks",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(BODY)),
        "HTTP_AUTHORIZATION": f"Bearer {PARTNER}",
        "wsgi.input": io.BytesIO(BODY),
    }
    return b"".join(api.app.wsgi_app(environ, lambda *_: None))


def test_a_create_moves_between_files_few_times(api: Caller) -> None:
    create(api)  # what is made at the first call and kept is not the usual way
    moves = Moves()
    before: Any = sys.gettrace()
    sys.settrace(moves)
    try:
        created = create(api)
    finally:
        sys.settrace(before)
    assert json.loads(created)["status"] == "queued"
    assert len(moves.seen) <= MOST_MOVES, moves.seen
