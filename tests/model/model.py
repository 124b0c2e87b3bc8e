"""RVQ in plain Python, without SQL, locks or clocks: what every operation answers and what it leaves behind.

Written from the contract (design sections 2 and 3). Times are whole microseconds since the model began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.model.states import Stateful

SECOND = 1_000_000
EXPIRED = '{"code":"lease_expired","message":"the lease expired before the worker reported"}'
OPEN = ("scheduled", "queued", "claimed")
FINAL = ("succeeded", "failed", "cancelled")
Range = tuple[int, int]


@dataclass
class SubTask(Stateful, kind="sub_task"):
    """`due_at` is a range while nobody has looked: back-off has jitter."""

    id: int
    queue: str
    queued_at: int
    max_attempts: int
    limit: int
    status: str
    due_at: int | Range | None = None
    requeued: bool = False
    attempt: int = 0
    token: str | None = None
    lease_until: int | None = None
    worker: str | None = None
    result: str | None = None
    error: str | None = None
    finished_at: int | None = None
    last_worker: str | None = None
    reported: set[str] = field(default_factory=set)

    @property
    def open(self) -> bool:
        return self.status in OPEN

    def note(self, worker: str | None, error: str | None) -> None:
        """An attempt ended."""
        self.last_worker, self.error = worker, error

    def end(self, status: str, now: int) -> None:
        self.status, self.finished_at = status, now
        self.token = self.lease_until = self.due_at = None

    def wait(self, delay: int | Range, now: int) -> None:
        """Back to wait for another attempt, after `delay`."""
        self.requeued, self.lease_until = True, None
        low, high = delay if isinstance(delay, tuple) else (delay, delay)
        self.status = "scheduled" if high else "queued"
        self.due_at = None if not high else now + low if low == high else (now + low, now + high)

    def backoff(self) -> Range:
        """attempt^4 seconds, at most an hour, 10 % more or less."""
        seconds = min(self.attempt**4, 3600)
        return int(seconds * 0.9 * SECOND), int(seconds * 1.1 * SECOND) + 1


@dataclass
class Delivery(Stateful, kind="delivery"):
    """Of one event."""

    status: str = "pending"
    due_at: int = 0
    token: str | None = None
    lease_until: int = 0
    attempt: int = 0
    tries: int = 0


@dataclass
class Task(Stateful, kind="task"):
    """`status` is what a reader sees; `refresh` works it out after each step that may change it."""

    id: int
    queue: str
    policy: str
    required: int | None
    deadline: int | None
    created_at: int
    webhook: bool
    sub_tasks: list[SubTask]
    deadline_at: int | None = None
    finished_at: int | None = None
    open: bool = True
    run: int = 0
    events: list[tuple[int, str, int, int, int]] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        return sum(sub_task.status in statuses for sub_task in self.sub_tasks)

    def refresh(self) -> None:
        status = self._shown()
        if status != self.status:
            self.status = status

    def _shown(self) -> str:
        if not self.open:
            return self.events[-1][1]
        tried = any(sub_task.attempt for sub_task in self.sub_tasks if sub_task.open)
        return "running" if tried or self.count(*FINAL) else "queued"

    def decide(self) -> str | None:
        """How it ends now, or None when it does not."""
        unfinished, succeeded, failed = self.count(*OPEN), self.count("succeeded"), self.count("failed")
        if self.policy == "fail_fast" and failed:
            return "failed"
        if self.policy == "at_least" and self.required is not None:
            if succeeded >= self.required:
                return "succeeded"
            if succeeded + unfinished < self.required:
                return "failed"
        if unfinished:
            return None
        return "failed" if failed else "succeeded"


@dataclass(frozen=True)
class Report:
    """`kind`: succeeded, final (no more tries) or retry; `retry_after` in microseconds."""

    id: int
    token: str
    kind: str = "succeeded"
    retry_after: int | None = None


class Model:
    """All tasks, and the time."""

    def __init__(self) -> None:
        self.now = 0
        self.tasks: dict[int, Task] = {}
        self.sub_tasks: dict[int, SubTask] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.paused: set[str] = set()
        self.keys: dict[str, tuple[bytes, int]] = {}

    # partner and admin

    def add(self, task: Task) -> None:
        task.deadline_at = None if task.deadline is None else task.sub_tasks[0].queued_at + task.deadline
        self.tasks[task.id] = task
        self.sub_tasks.update({sub_task.id: sub_task for sub_task in task.sub_tasks})
        task.refresh()

    def cancel(self, task_id: int) -> str:
        task = self.tasks.get(task_id)
        if task is None:
            return "unknown"
        if not task.open:
            return "finished"
        self._end(task, "cancelled")
        return "cancelled"

    def retry(self, task_id: int) -> str:
        task = self.tasks.get(task_id)
        if task is None:
            return "unknown"
        if task.open:
            return "unfinished"
        if task.status != "failed":
            return "nothing_failed"
        self._reopen(task)
        return "retried"

    def _reopen(self, task: Task) -> None:
        task.open, task.run, task.finished_at = True, task.run + 1, None
        task.deadline_at = None if task.deadline is None else self.now + task.deadline
        for sub_task in task.sub_tasks:
            if sub_task.status != "succeeded":
                sub_task.status, sub_task.requeued, sub_task.finished_at = "queued", True, None
                sub_task.limit = sub_task.attempt + sub_task.max_attempts
                sub_task.worker = None
        task.refresh()

    # worker

    def claim(self, worker: str, limit: int, lease: int, queues: Sequence[str]) -> list[SubTask]:
        """Whom it takes; the caller tells them their tokens."""
        taken = self._take(limit, queues)
        if len(taken) < limit and self.promote():
            taken += self._take(limit - len(taken), queues, taken)
        for sub_task in taken:
            sub_task.status, sub_task.worker, sub_task.lease_until = "claimed", worker, self.now + lease
            sub_task.attempt += 1
            self._task_of(sub_task).refresh()
        return taken

    def _take(self, limit: int, queues: Sequence[str], but: Sequence[SubTask] = ()) -> list[SubTask]:
        free = [s for s in self.sub_tasks.values() if s.status == "queued" and s.queue not in self.paused]
        places = {queue: number for number, queue in enumerate(queues)}
        free = [sub_task for sub_task in free if sub_task.queue in places and sub_task not in but]
        free.sort(key=lambda s: (places[s.queue], not s.requeued, s.queued_at, s.id))
        return free[:limit]

    def complete(self, worker: str, reports: Sequence[Report]) -> list[str]:
        outcomes: list[str | None] = [None] * len(reports)
        ended: list[SubTask] = []
        for position, report in enumerate(reports):
            sub_task = self._held(report)
            if sub_task and (report.kind != "retry" or sub_task.attempt >= sub_task.limit):
                outcomes[position] = self._report_end(sub_task, worker, report)
                ended.append(sub_task)
        for position, report in enumerate(reports):
            sub_task = self._held(report)
            if sub_task:
                self._report_retry(sub_task, worker, report)
                outcomes[position] = "retrying"
        self._advance(ended)
        return [outcome or self._explain(report) for outcome, report in zip(outcomes, reports, strict=True)]

    def _held(self, report: Report) -> SubTask | None:
        """A lease counts until the next claim, even after it has run out."""
        sub_task = self.sub_tasks.get(report.id)
        return sub_task if sub_task and sub_task.open and sub_task.token == report.token else None

    def _report_end(self, sub_task: SubTask, worker: str, report: Report) -> str:
        good = report.kind == "succeeded"
        sub_task.result, sub_task.worker = ("1" if good else None), worker
        sub_task.note(worker, None if good else "2")
        sub_task.reported.add(report.token)
        sub_task.end("succeeded" if good else "failed", self.now)
        return sub_task.status

    def _report_retry(self, sub_task: SubTask, worker: str, report: Report) -> None:
        sub_task.note(worker, "2")
        sub_task.reported.add(report.token)
        sub_task.token = None
        sub_task.wait(sub_task.backoff() if report.retry_after is None else report.retry_after, self.now)

    def _explain(self, report: Report) -> str:
        sub_task = self.sub_tasks.get(report.id)
        if sub_task is None:
            return "unknown"
        return "duplicate" if report.token in sub_task.reported else "stale"

    def heartbeat(self, lease: int, named: Sequence[tuple[int, str]]) -> list[str]:
        return [self._beat(lease, self.sub_tasks.get(id_), token) for id_, token in named]

    def _beat(self, lease: int, sub_task: SubTask | None, token: str) -> str:
        if sub_task is None:
            return "unknown"
        if sub_task.status == "claimed" and sub_task.token == token:
            sub_task.lease_until = self.now + lease
            return "extended"
        return "cancelled" if sub_task.status == "cancelled" else "stale"

    def release(self, named: Sequence[tuple[int, str]]) -> list[str]:
        outcomes = []
        for id_, token in named:
            sub_task = self.sub_tasks.get(id_)
            held = sub_task and sub_task.status == "claimed" and sub_task.token == token
            outcomes.append("released" if held else "stale" if sub_task else "unknown")
        for (id_, _), outcome in zip(named, outcomes, strict=True):
            sub_task = self.sub_tasks.get(id_)
            if sub_task and outcome == "released" and sub_task.status == "claimed":
                sub_task.attempt -= 1
                sub_task.token = sub_task.worker = None
                sub_task.wait(0, self.now)
                self._task_of(sub_task).refresh()
        return outcomes

    # maintenance

    def expire(self) -> int:
        late = [
            s for s in self.sub_tasks.values() if s.status == "claimed" and _passed(s.lease_until, self.now)
        ]
        ended = [sub_task for sub_task in late if sub_task.attempt >= sub_task.limit]
        for sub_task in late:
            sub_task.note(sub_task.worker, EXPIRED)
            if sub_task in ended:
                sub_task.result = None
                sub_task.end("failed", self.now)
            else:
                sub_task.wait(sub_task.backoff(), self.now)
        self._advance(ended)
        return len(late)

    def promote(self) -> int:
        due = [s for s in self.sub_tasks.values() if s.status == "scheduled" and _passed(s.due_at, self.now)]
        for sub_task in due:
            sub_task.status, sub_task.due_at, sub_task.requeued = "queued", None, True
        return len(due)

    def end_overdue(self) -> int:
        late = [task for task in self.tasks.values() if task.open and _passed(task.deadline_at, self.now)]
        for task in late:
            self._end(task, "failed")
        return len(late)

    # fan-in

    def _advance(self, ended: Iterable[SubTask]) -> None:
        for task_id in {sub_task.id & -16384 for sub_task in ended}:
            task = self.tasks[task_id]
            end_as = task.decide()
            if end_as:
                self._end(task, end_as)

    def _end(self, task: Task, status: str) -> None:
        for sub_task in task.sub_tasks:
            if sub_task.open:
                sub_task.note(sub_task.worker, None)
                sub_task.result = None
                sub_task.end("cancelled", self.now)
        counts = (task.count("succeeded"), task.count("failed"), task.count("cancelled"))
        task.open, task.finished_at = False, self.now
        task.events.append((task.id + task.run, status, *counts))
        task.refresh()
        if task.webhook:
            self.deliveries[task.id + task.run] = Delivery(due_at=self.now)

    def _task_of(self, sub_task: SubTask) -> Task:
        return self.tasks[sub_task.id & -16384]

    # dispatcher

    def claim_deliveries(self, lease: int) -> list[int]:
        free = {id_: d for id_, d in self.deliveries.items() if d.status == "pending" and d.token is None}
        taken = [id_ for id_, delivery in free.items() if delivery.due_at <= self.now]
        for id_ in taken:
            delivery = self.deliveries[id_]
            delivery.attempt, delivery.tries = delivery.attempt + 1, delivery.tries + 1
            delivery.lease_until = self.now + lease
        return taken

    def settle(self, id_: int, token: str, decision: str, delay: int) -> list[int]:
        delivery = self.deliveries[id_]
        if delivery.token != token:
            return []
        delivery.token = None
        delivery.status = "pending" if decision == "retry" else decision
        delivery.due_at = self.now + delay
        return [id_]

    def release_delivery(self, id_: int, token: str) -> int:
        delivery = self.deliveries[id_]
        if delivery.token != token:
            return 0
        delivery.token = None
        delivery.attempt, delivery.tries = delivery.attempt - 1, delivery.tries - 1
        return 1

    def expire_deliveries(self) -> int:
        late = [d for d in self.deliveries.values() if d.token and d.lease_until <= self.now]
        for delivery in late:
            delivery.token, delivery.due_at = None, self.now
        return len(late)

    def redeliver(self, task_id: int) -> str:
        task = self.tasks.get(task_id)
        if task is None:
            return "unknown"
        if not task.events or not task.webhook:
            return "nothing_to_send"
        delivery = self.deliveries[task.events[-1][0]]
        if delivery.token is not None:
            return "in_flight"
        delivery.status, delivery.due_at, delivery.tries = "pending", self.now, 0
        return "redelivered"

    # statistics

    def stats(self) -> dict[str, object]:
        """GET /v1/stats, with the queues that ever had a task."""
        tasks, subs = list(self.tasks.values()), list(self.sub_tasks.values())
        queued = [sub_task.queued_at for sub_task in subs if sub_task.status == "queued"]
        statuses = [delivery.status for delivery in self.deliveries.values()]
        return {
            "tasks": {s: sum(task.status == s for task in tasks) for s in ("queued", "running", *FINAL)},
            "sub_tasks": _by_status(subs),
            "queues": {
                queue: _by_status(s for s in subs if s.queue == queue) for queue in {t.queue for t in tasks}
            },
            "oldest_queued_seconds": max(0, self.now - min(queued, default=self.now)) / SECOND,
            "deliveries": {s: statuses.count(s) for s in ("pending", "delivered", "dead")},
        }


def _by_status(sub_tasks: Iterable[SubTask]) -> dict[str, int]:
    listed = [sub_task.status for sub_task in sub_tasks]
    return {status: listed.count(status) for status in (*OPEN, *FINAL)}


def _passed(moment: int | Range | None, now: int) -> bool:
    """Ranges are looked up in the database before anything depends on them."""
    assert not isinstance(moment, tuple)
    return moment is not None and moment <= now
