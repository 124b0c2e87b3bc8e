"""Handlers of the end-to-end tests' workers. They tell and are told through files in E2E_FOLDER."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from worker_sdk import Fail, Handler, Raw, SubTask

FOLDER = Path(os.environ.get("E2E_FOLDER", "."))
LOOK_SECONDS = 0.01


def wait_for(name: str | None) -> None:
    """Until that file is there."""
    while name and not (FOLDER / name).exists():
        time.sleep(LOOK_SECONDS)


class Echo(Handler):
    """The payload's own bytes are the result."""

    queue = "e2e"
    lease_seconds = 2
    poll_seconds = (0.01, 0.1)

    def handle(self, sub_task: SubTask) -> Any:
        return Raw(sub_task.payload_bytes)


class Told(Echo):
    """Does what the payload says.

    {"do": "succeed" | "fail" | "wait", "after": NAME or null}: not before that file is there. `wait`
    makes `waiting-INDEX`, ends when it is cancelled, and then makes `told-INDEX`.
    {"do": "fail_until", "file": NAME}: fails for good unless that file is there.
    """

    concurrency = 8
    lease_seconds = 1

    def handle(self, sub_task: SubTask) -> Any:
        what = sub_task.payload["do"]
        wait_for(sub_task.payload.get("after"))
        if what == "wait":
            (FOLDER / f"waiting-{sub_task.index}").touch()
            if sub_task.cancelled.wait(60):
                (FOLDER / f"told-{sub_task.index}").touch()
        if what == "fail" or (what == "fail_until" and not (FOLDER / sub_task.payload["file"]).exists()):
            raise Fail("as told", code="as_told")
        return "as told"


class Mortal(Echo):
    """Stays with what it started until it is killed, unless there is a file `spare`."""

    lease_seconds = 1

    def handle(self, sub_task: SubTask) -> Any:
        (FOLDER / f"started-{sub_task.index}-{os.getpid()}").touch()
        wait_for("spare")
        return {"index": sub_task.index, "attempt": sub_task.attempt}


class Held(Echo):
    """Makes `started-INDEX-PID`, and ends when there is a file `go`."""

    concurrency = 4
    lease_seconds = 60

    def handle(self, sub_task: SubTask) -> Any:
        (FOLDER / f"started-{sub_task.index}-{os.getpid()}").touch()
        wait_for("go")
        return {"index": sub_task.index, "attempt": sub_task.attempt}
