"""What tests of handlers need: one run of a handler, or a whole worker against an RVQ in memory.

outcome = run_handler(WordCount, {"text": "to be or not"})
assert outcome.result == {"words": 4}

rvq = FakeRVQ()
id = rvq.submit({"text": "to be"}, queue="text")
rvq.work_off(WordCount)
assert rvq.sub_task(id).result == {"words": 2}
"""

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ._errors import APIError
from ._handler import Handler
from ._json import array_of, as_written, check, decode, encode, object_of
from ._options import Options
from ._outcome import Outcome as _Outcome
from ._outcome import perform
from ._sub_task import Raw, SubTask
from ._transport import Answer
from ._worker import Worker

__all__ = ["FakeRVQ", "FakeSubTask", "Outcome", "run_handler"]

TASK_ID = "task_0000000000000000"
_RESULT = object_of("id", "lease_token", "status", "error", result=as_written)
_REQUEST = object_of("worker_id", "limit", "lease_seconds", "queues", "leases", results=array_of(_RESULT))


@dataclass(frozen=True)
class Outcome:
    """How one run of a handler ended. `status` is succeeded, failed or cancelled (it stopped on request)."""

    status: str
    result_bytes: bytes | None = None
    error: dict[str, Any] | None = None

    @property
    def result(self) -> Any:
        """The result, decoded from its JSON (so a tuple has become a list)."""
        return None if self.result_bytes is None else json.loads(self.result_bytes)

    @property
    def retryable(self) -> bool:
        return bool(self.error and self.error["retryable"])

    @property
    def retry_after(self) -> float | None:
        """The seconds that `Retry(after=...)` asked for."""
        return self.error.get("retry_after_seconds") if self.error else None


def run_handler(
    handler: type[Handler],
    payload: Any,
    *,
    attempt: int = 1,
    max_attempts: int = 5,
    cancelled: bool = False,
) -> Outcome:
    """Set up, handle one sub_task and tear down as a worker would. `payload` may be `Raw`."""
    sub_task = SubTask(
        id="sub_0000000000000001",
        task_id=TASK_ID,
        index=0,
        queue=Options.of(handler).queues[0],
        attempt=attempt,
        max_attempts=max_attempts,
        payload_bytes=_bytes(payload),
    )
    if cancelled:
        sub_task.cancelled.set()
    instance = handler()
    instance.setup()
    try:
        return _public(perform(instance.handle, sub_task))
    finally:
        instance.teardown()


@dataclass
class FakeSubTask:
    """One sub_task of a FakeRVQ. `due` and `lease_expires` are times on its clock."""

    id: str
    index: int
    queue: str
    max_attempts: int
    payload_bytes: bytes
    status: str = "queued"
    attempt: int = 0
    due: float = 0.0
    lease_token: str | None = None
    lease_expires: float = 0.0
    worker_id: str | None = None
    reported: set[str] = field(default_factory=set)
    """The lease tokens whose outcome is known."""
    result_bytes: bytes | None = None
    error: dict[str, Any] | None = None

    @property
    def result(self) -> Any:
        return None if self.result_bytes is None else json.loads(self.result_bytes)


class FakeRVQ:
    """RVQ's worker API in memory: a transport for `Worker(..., transport=FakeRVQ())`. Thread-safe.

    A failed sub_task that may be retried is due at once, unless `retry_after_seconds` says otherwise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sub_tasks: dict[str, FakeSubTask] = {}

    def submit(self, payload: Any, *, queue: str = "default", max_attempts: int = 5) -> str:
        """Add one sub_task and return its id. Raises ValueError for a payload that is not JSON."""
        data = _bytes(payload)
        check(data)
        with self._lock:
            index = len(self._sub_tasks)
            sub_task = FakeSubTask(f"sub_{index + 1:016x}", index, queue, max_attempts, data)
            self._sub_tasks[sub_task.id] = sub_task
            return sub_task.id

    def sub_task(self, sub_task_id: str) -> FakeSubTask:
        return self._sub_tasks[sub_task_id]

    def sub_tasks(self) -> list[FakeSubTask]:
        return list(self._sub_tasks.values())

    def cancel(self, sub_task_id: str) -> None:
        """Cancel as a partner would: the worker that holds it is told at its next heartbeat."""
        self._sub_tasks[sub_task_id].status = "cancelled"

    def work_off(self, handler: type[Handler]) -> None:
        """Run a worker until nothing is left to claim; retries that are not due stay. Raises APIError."""
        worker = Worker(handler, transport=self, until_empty=True)
        worker.empty_seconds = 0.0  # nothing is locked here
        worker.start()
        worker.stop_request.wait()
        worker.stop()
        if worker.fatal is not None:
            raise APIError(worker.fatal)

    def post(self, path: str, body: bytes) -> Answer:
        """Serve one of the four worker calls."""
        calls = {"claim": self._claim, "complete": self._complete, "heartbeat": self._heartbeat}
        call = {**calls, "release": self._release}.get(path.removeprefix("/v1/sub_tasks/"))
        if call is None:
            return Answer(404, b'{"code":"not_found"}')
        with self._lock:
            self._expire()
            return Answer(200, call(decode(body, _REQUEST)))

    def close(self) -> None: ...

    def _claim(self, fields: dict[str, Any]) -> bytes:
        free = [
            sub_task
            for queue in fields.get("queues", ["default"])
            for sub_task in self._sub_tasks.values()
            if sub_task.queue == queue and sub_task.status == "queued" and sub_task.due <= self._clock()
        ]
        taken = [self._lease(sub_task, fields) for sub_task in free[: fields.get("limit", 1)]]
        return b'{"sub_tasks": [%b]}' % b", ".join(taken)

    def _lease(self, sub_task: FakeSubTask, fields: dict[str, Any]) -> bytes:
        sub_task.status = "claimed"
        sub_task.attempt += 1
        sub_task.lease_token = secrets.token_hex(16)
        sub_task.lease_expires = self._clock() + fields.get("lease_seconds", 60)
        sub_task.worker_id = fields["worker_id"]
        names = ("id", "index", "queue", "attempt", "max_attempts", "lease_token")
        known = {"task_id": TASK_ID, "lease_expires_at": "2024-01-01T00:00:00Z"}
        head = encode(known | {name: getattr(sub_task, name) for name in names})
        return b'%b, "payload": %b}' % (head[:-1], sub_task.payload_bytes)

    def _complete(self, fields: dict[str, Any]) -> bytes:
        return _outcomes([self._settle(result) for result in fields["results"]])

    def _settle(self, result: dict[str, Any]) -> str:
        sub_task, token = self._sub_tasks.get(result["id"]), result["lease_token"]
        if sub_task is None:
            return "unknown"
        if token in sub_task.reported:
            return "duplicate"
        if sub_task.lease_token != token or sub_task.status not in ("claimed", "queued"):
            return "stale"
        sub_task.reported.add(token)
        sub_task.lease_token = None
        if result["status"] == "succeeded":
            sub_task.status, sub_task.result_bytes = "succeeded", result.get("result", b"null")
            return "succeeded"
        return self._fail(sub_task, result["error"])

    def _fail(self, sub_task: FakeSubTask, error: dict[str, Any]) -> str:
        sub_task.error = error
        if error.get("retryable", True) and sub_task.attempt < sub_task.max_attempts:
            sub_task.status, sub_task.due = "queued", self._clock() + error.get("retry_after_seconds", 0.0)
            return "retrying"
        sub_task.status = "failed"
        return "failed"

    def _heartbeat(self, fields: dict[str, Any]) -> bytes:
        expires = self._clock() + fields.get("lease_seconds", 60)
        return _outcomes([self._extend(lease, expires) for lease in fields["leases"]])

    def _extend(self, lease: dict[str, str], expires: float) -> str:
        sub_task = self._sub_tasks.get(lease["id"])
        if sub_task is None:
            return "unknown"
        if sub_task.status == "cancelled":
            return "cancelled"
        if sub_task.status != "claimed" or sub_task.lease_token != lease["lease_token"]:
            return "stale"
        sub_task.lease_expires = expires
        return "extended"

    def _release(self, fields: dict[str, Any]) -> bytes:
        return _outcomes([self._give_back(lease) for lease in fields["leases"]])

    def _give_back(self, lease: dict[str, str]) -> str:
        sub_task = self._sub_tasks.get(lease["id"])
        if sub_task is None:
            return "unknown"
        if sub_task.status != "claimed" or sub_task.lease_token != lease["lease_token"]:
            return "stale"
        sub_task.status, sub_task.lease_token, sub_task.attempt = "queued", None, sub_task.attempt - 1
        return "released"

    def _expire(self) -> None:
        for sub_task in self._sub_tasks.values():
            if sub_task.status == "claimed" and sub_task.lease_expires <= self._clock():
                self._fail(sub_task, {"message": "the lease expired", "code": "lease_expired"})


def _outcomes(outcomes: list[str]) -> bytes:
    return encode({"results": [{"outcome": outcome} for outcome in outcomes]})


def _bytes(payload: Any) -> bytes:
    return bytes(payload) if isinstance(payload, Raw) else encode(payload)


def _public(outcome: _Outcome | None) -> Outcome:
    if outcome is None:
        return Outcome("cancelled")
    if outcome.succeeded:
        return Outcome("succeeded", result_bytes=outcome.document)
    return Outcome("failed", error=json.loads(outcome.document))
