"""The demo's worker: what a user of the SDK writes."""

from __future__ import annotations

from pathlib import Path

from rvq.demo.inputs import Facts
from worker_sdk import Handler, SubTask


class FileFacts(Handler):
    """Reads the file named in the payload and counts."""

    queue = "files"
    lease_seconds = 3  # short, so that the work of the worker that is killed soon goes to another
    prefetch = 20

    def handle(self, sub_task: SubTask) -> dict[str, int | str]:
        return Facts.of(Path(sub_task.payload["path"])).as_json()
