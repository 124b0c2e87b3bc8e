"""Partners and a receiver that note what they see, for the checker of histories; and RVQ's own last word."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.dispatcher.receiver import Received
from tests.e2e.load import GONE
from tests.e2e.rig import Rvq
from tests.support.history import Final, Recorder

RETRY_SECONDS = 0.05
TAKEN = (200, 201)


class Partners:
    """`count` clients that create tasks in a steady stream; each is sent until it is taken."""

    def __init__(self, rvq: Rvq, count: int, webhook_url: str, pause: float = 0.02) -> None:
        self.taken = 0
        self.refused: list[str] = []
        self._rvq = rvq
        self._webhook_url = webhook_url
        self._pause = pause
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """When what is on its way is taken."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, client: int) -> None:
        recorder = Recorder(self._rvq.folder / f"partner-{client}.history")
        number = 0
        while not self._stop.wait(self._pause):
            self._create(recorder, f"{client}-{number}")
            number += 1

    def _create(self, recorder: Recorder, key: str) -> None:
        body = {
            "queue": "e2e",
            "max_attempts": 50,
            "webhook_url": self._webhook_url,
            "metadata": {"key": key},
            "sub_tasks": [{"payload": {"key": key, "n": n}} for n in range(1 + hash(key) % 6)],
        }

        def send() -> tuple[int, Any]:
            response = self._rvq.call("POST", "/v1/tasks", body, headers={"Idempotency-Key": key}, timeout=5)
            return response.status, response.json

        give_up = time.monotonic() + 120
        while time.monotonic() < give_up:
            try:
                status, told = recorder.call("create", body, send)
            except GONE:
                status, told = 0, None
            if status in TAKEN:
                with self._lock:
                    self.taken += 1
                return
            if status not in (0, 503):
                self.refused.append(f"{key}: {status} {told}")
            time.sleep(RETRY_SECONDS)
        self.refused.append(f"{key}: not taken in time")


def note_webhooks(rvq: Rvq, received: list[Received]) -> None:
    """As calls of the history, each with a signature that holds. Raises when one does not."""
    recorder = Recorder(rvq.folder / "receiver.history")
    for one in received:
        one.verify(rvq.settings["APP_WEBHOOK_SECRET"])
        recorder.call("webhook", {"id": one.id, "body": one.body.decode()}, lambda: (204, None))


def last_word(rvq: Rvq) -> Final:
    """All tasks, sub_tasks and events, by the partner API."""
    tasks = {task["id"]: task for task in rvq.pages("/v1/tasks")}
    sub_tasks = {one["id"]: one for id_ in tasks for one in rvq.sub_tasks(id_)}
    return Final(tasks, sub_tasks, rvq.pages("/v1/events"))
