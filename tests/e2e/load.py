"""Partners that go on creating while something happens to RVQ."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.e2e.rig import Response, Rvq, ask
from tests.support.concurrency import wait_until

GONE = (OSError, http.client.HTTPException)
PAUSE_SECONDS = 0.02


@dataclass
class Load:
    """What the clients were told: responses by status, tasks by Idempotency-Key, and what got no response."""

    statuses: Counter[int] = field(default_factory=Counter)
    tasks: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def created(self) -> int:
        return len(self.tasks)

    def wait_for(self, count: int) -> None:
        """Until that many tasks are created."""
        wait_until(lambda: self.created >= count, f"{count} tasks are created", 60)

    def note(self, key: str, response: Response) -> None:
        with self.lock:
            self.statuses[response.status] += 1
            if response.status in (200, 201):
                self.tasks[key] = response.json["id"]


@dataclass
class Partner:
    """One client. `kept`: on one connection, not one for each request. `patient`: until it is taken."""

    rvq: Rvq
    load: Load
    name: str
    fields: dict[str, object]
    kept: bool
    patient: bool

    def run(self, stop: threading.Event) -> None:
        connection = self._connect()
        number = 0
        while not stop.is_set():
            key = f"{self.name}-{number}"
            number += 1
            if not self.kept:
                connection = self._connect()
            connection = self._create(connection, key)
            if not self.kept:
                connection.close()
        connection.close()

    def _create(self, connection: http.client.HTTPConnection, key: str) -> http.client.HTTPConnection:
        body = {"queue": "e2e", "metadata": {"key": key}, **self.fields}
        give_up = time.monotonic() + 60
        while True:
            fresh = connection.sock is None
            try:
                response = ask(
                    connection,
                    "POST",
                    "/v1/tasks",
                    body,
                    self.rvq.headers("PARTNER", {"Idempotency-Key": key}),
                )
                self.load.note(key, response)
                if response.status in (200, 201) or not self.patient:
                    return connection
            except GONE as error:
                connection.close()
                connection = self._connect()
                # A server may close a kept connection at any time; then a client sends again.
                if not self.patient and fresh:
                    with self.load.lock:
                        self.load.problems.append(f"{key}: {error!r}")
                    return connection
            if time.monotonic() > give_up:
                raise AssertionError(f"{key} was not taken in a minute")
            time.sleep(PAUSE_SECONDS)

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.rvq.bind, timeout=30)


@contextlib.contextmanager
def partners(
    rvq: Rvq,
    count: int = 4,
    *,
    sub_tasks: int = 2,
    kept: bool = False,
    patient: bool = False,
    **fields: object,
) -> Iterator[Load]:
    """That many clients create tasks while the block runs."""
    load = Load()
    stop = threading.Event()
    whole = {"sub_tasks": [{"payload": number} for number in range(sub_tasks)], **fields}
    clients = [Partner(rvq, load, f"{kept}-{number}", whole, kept, patient) for number in range(count)]
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        stop.set()
        for thread in threads:
            thread.join()
