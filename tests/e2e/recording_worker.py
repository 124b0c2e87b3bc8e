"""An SDK worker that notes every call and its answer: `python -m tests.e2e.recording_worker FILE`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.handlers import Echo
from tests.support.history import Recorder
from worker_sdk import Answer, Worker, load_settings
from worker_sdk._transport import HTTPTransport


class Slow(Echo):
    """Long enough for a kill to find work in hand."""

    concurrency = 4

    def handle(self, sub_task: Any) -> Any:
        sub_task.cancelled.wait(0.005)
        return super().handle(sub_task)


class RecordingTransport:
    """The SDK's own, with notes around it."""

    def __init__(self, recorder: Recorder) -> None:
        self._inner = HTTPTransport(load_settings(os.environ), read_seconds=1)
        self._recorder = recorder

    def post(self, path: str, body: bytes) -> Answer:
        answers: list[Answer] = []

        def send() -> tuple[int, Any]:
            answers.append(answer := self._inner.post(path, body))
            return answer.status, json.loads(answer.body) if answer.body else None

        self._recorder.call(path.rpartition("/")[2], json.loads(body), send)
        return answers[0]

    def close(self) -> None:
        self._inner.close()


if __name__ == "__main__":
    sys.exit(Worker(Slow, transport=RecordingTransport(Recorder(Path(sys.argv[1])))).run())
