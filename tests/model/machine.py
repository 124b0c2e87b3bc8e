"""The model and the real SQL functions, side by side: the same random steps, and the same state after each.

The database's clock stands still but for what the steps say (what rvq.clock_offset is added to is frozen, the
only thing there that is not RVQ's own), so that nothing depends on how fast this runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.model.model import SECOND, Model, Report, SubTask, Task
from tests.model.stage import sub_task_row, task_row
from tests.support.creating import CREATE, NewTask, create_params
from tests.support.database import Database

QUEUES = ("a", "b")
# It began some time today, and there are partitions for tomorrow.
END_OF_TIME = 86_400 * SECOND
NOBODY = "0" * 32
UNKNOWN = 123 << 48
Shape = tuple[str, list[int], str, int, int | None, int | None, bool, tuple[str | None, bytes]]
index = st.integers(0, 30)
keys = st.tuples(st.sampled_from(["k1", "k2"]), st.sampled_from([b"1", b"1", b"2"]))
# Queue, max_attempts of each sub_task, policy and its count, deadline and not_before in seconds from now,
# webhook, idempotency key and hash of the body.
shapes: st.SearchStrategy[Shape] = st.tuples(
    st.sampled_from(QUEUES),
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4),
    st.sampled_from(["all", "all", "fail_fast", "at_least"]),
    st.integers(1, 4),
    st.sampled_from([None, None, 50, 500]),
    st.sampled_from([None, None, None, -30, 30, 300]),
    st.booleans(),
    st.one_of(st.just((None, b"")), st.just((None, b"")), keys),
)
queue_lists = st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")])
workers = st.sampled_from("wv")
leases = st.sampled_from([10, 100, 1000])


class Machine(RuleBasedStateMachine):
    """Made a subclass of with `database`, `base` (the frozen moment) and `seen` (outcomes) set."""

    database: ClassVar[Database]
    base: ClassVar[datetime]
    seen: ClassVar[set[str]]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.granted: list[tuple[int, str]] = []
        self.sent: list[tuple[int, str]] = []

    def start_again(self) -> None:
        self.database.rows("SELECT rvq.reset()")
        self.database.rows("DELETE FROM rvq.queues")
        self._set_clock()

    # time

    @rule(seconds=st.sampled_from([1, 20, 20, 200, 2_000, 20_000]))
    def wait(self, seconds: int) -> None:
        if self.model.now + seconds * SECOND < END_OF_TIME:
            self.model.now += seconds * SECOND
            self._set_clock()

    def _tick(self) -> None:
        """No two steps at the same moment."""
        self.model.now += 1_000
        self._set_clock()

    def _set_clock(self) -> None:
        self.database.rows("SET rvq.clock_offset = %s", (f"{self.model.now / SECOND:.6f}",))

    def _same(self, operation: str, found: object, expected: object) -> None:
        assert found == expected
        outcomes = (
            expected
            if isinstance(expected, list)
            else [min(expected, 1) if isinstance(expected, int) else expected]
        )
        self.seen.update(f"{operation} {outcome}" for outcome in outcomes)

    def _value(self, sql: str, *params: object) -> Any:
        return self.database.value(sql, params)

    # partner and admin

    @initialize(several=st.lists(shapes, min_size=1, max_size=4))
    def begin(self, several: list[Shape]) -> None:
        self.start_again()
        for shape in several:
            self.create(shape)

    @rule(shape=shapes)
    def create(self, shape: Shape) -> None:
        queue, attempts, policy, required, deadline, start, webhook, (key, body) = shape
        self._tick()
        moment = None if start is None else self.model.now + start * SECOND
        count = min(required, len(attempts)) if policy == "at_least" else None
        outcome, task_id, created_at, scheduled = self.database.row(
            CREATE,
            create_params(
                NewTask(
                    ["0"] * len(attempts),
                    attempts,
                    queue,
                    None,
                    "https://h.example/" if webhook else None,
                    "h.example" if webhook else None,
                    self._time(moment),
                    policy,
                    count,
                    deadline,
                    key,
                    body,
                )
            ),
        )
        if key in self.model.keys:
            known_body, known_id = self.model.keys[key]
            assert (outcome, task_id) == ("replayed" if known_body == body else "conflict", known_id)
            return
        assert (outcome, self._micros(created_at)) == ("created", self.model.now)
        assert scheduled == (start is not None and start > 0)
        at = moment if moment is not None and scheduled else self.model.now
        sub_tasks = [
            SubTask(
                id=task_id + number,
                queue=queue,
                queued_at=at,
                max_attempts=most,
                limit=most,
                status="scheduled" if scheduled else "queued",
                due_at=at if scheduled else None,
            )
            for number, most in enumerate(attempts, 1)
        ]
        until = None if deadline is None else deadline * SECOND
        self.model.add(Task(task_id, queue, policy, count, until, self.model.now, webhook, sub_tasks))
        if key:
            self.model.keys[key] = (body, task_id)

    @rule(step=st.sampled_from(["retry", "retry", "cancel", "pause", "resume"]), number=index)
    def administer(self, step: str, number: int) -> None:
        self._tick()
        if step == "cancel":
            self._cancel(self._task(number))
        elif step == "retry":
            failed = [task.id for task in self.model.tasks.values() if task.status == "failed"]
            self._retry(failed[number % len(failed)] if failed and number % 3 else self._task(number))
        else:
            self._pause(QUEUES[number % 2], step == "pause")

    def _cancel(self, task_id: int) -> None:
        found = self._value("SELECT rvq.cancel_task(%s)", task_id)
        self._same("cancel", found, self.model.cancel(task_id))

    def _retry(self, task_id: int) -> None:
        found = self._value("SELECT rvq.retry_task(%s)", task_id)
        self._same("retry", found, self.model.retry(task_id))

    def _pause(self, queue: str, paused: bool) -> None:
        self._value("SELECT rvq.set_queue_paused(%s, %s)", queue, paused)
        (self.model.paused.add if paused else self.model.paused.discard)(queue)
        found = self._value("SELECT paused FROM rvq.read_queue(%s)", queue)
        self._same("paused", found, paused)

    def _task(self, number: int) -> int:
        """One of the newest, or an unknown id."""
        ids = [*self.model.tasks][-12:]
        return ids[number % len(ids)] if ids and number < 28 else UNKNOWN

    # worker

    @rule(
        worker=st.sampled_from("wv"), limit=st.sampled_from([1, 2, 5, 50]), lease=leases, queues=queue_lists
    )
    def claim(self, worker: str, limit: int, lease: int, queues: Sequence[str]) -> None:
        self._tick()
        rows = self.database.rows(
            "SELECT id, queue, attempt, lease_token::text, lease_expires_at"
            " FROM rvq.claim_sub_tasks(%s,%s,%s,%s)",
            ([worker], [limit], lease, list(queues)),
        )
        taken = self.model.claim(worker, limit, lease * SECOND, queues)
        until = self.model.now + lease * SECOND
        expected = {(s.id, s.queue, s.attempt, until) for s in taken}
        assert {(row[0], row[1], row[2], self._micros(row[4])) for row in rows} == expected
        for row in rows:
            token = row[3].replace("-", "")
            assert token not in {known for _, known in self.granted}
            self.model.sub_tasks[row[0]].token = token
            self.granted.append((row[0], token))

    @precondition(lambda self: self.granted)
    @rule(
        worker=workers,
        picks=st.lists(
            st.tuples(index, st.sampled_from(["succeeded", "succeeded", "succeeded", "final", "retry"])),
            min_size=1,
            max_size=6,
        ),
        retry_after=st.sampled_from([None, None, 0, 60]),
        twice=st.booleans(),
    )
    def complete(
        self, worker: str, picks: list[tuple[int, str]], retry_after: int | None, twice: bool
    ) -> None:
        self._tick()
        named = {self._lease(number): kind for number, kind in picks}
        delay = None if retry_after is None else retry_after * SECOND
        reports = [Report(*lease, kind, delay) for lease, kind in named.items()]
        reports += reports[:1] if twice else []
        self._same("complete", self._complete(worker, reports), self.model.complete(worker, reports))

    def _complete(self, worker: str, reports: Sequence[Report]) -> object:
        good = [report.kind == "succeeded" for report in reports]
        after = [None if r.retry_after is None else r.retry_after / SECOND for r in reports]
        return self._value(
            "SELECT rvq.complete_sub_tasks(%s::text[],%s::bigint[],%s::uuid[],%s,%s::text[],%s::text[],%s,"
            "%s::float8[])",
            [worker] * len(reports),
            [report.id for report in reports],
            [report.token for report in reports],
            good,
            ["1" if yes else None for yes in good],
            [None if yes else "2" for yes in good],
            [report.kind == "retry" for report in reports],
            after,
        )

    @rule(
        worker=workers, queues=queue_lists, kind=st.sampled_from(["succeeded", "succeeded", "final", "retry"])
    )
    def work(self, worker: str, queues: Sequence[str], kind: str) -> None:
        """Claim and report, as a worker does most of the time."""
        before = len(self.granted)
        self.claim(worker, 3, 100, queues)
        self._tick()
        reports = [Report(*lease, kind) for lease in self.granted[before:]]
        self._same("complete", self._complete(worker, reports), self.model.complete(worker, reports))

    @precondition(lambda self: self.granted)
    @rule(back=st.booleans(), numbers=st.lists(index, min_size=1, max_size=3), lease=leases)
    def hold(self, back: bool, numbers: list[int], lease: int) -> None:
        """A heartbeat, or give it back."""
        self._tick()
        named = [self._lease(number) for number in numbers]
        columns = [id_ for id_, _ in named], [token for _, token in named]
        if back:
            found = self._value("SELECT rvq.release_sub_tasks(%s,%s::uuid[])", *columns)
            self._same("release", found, self.model.release(named))
        else:
            found = self._value("SELECT rvq.heartbeat_sub_tasks(%s,%s,%s::uuid[])", lease, *columns)
            self._same("heartbeat", found, self.model.heartbeat(lease * SECOND, named))

    def _lease(self, number: int) -> tuple[int, str]:
        """One of the newest ever granted; sometimes with another's token, or of an unknown sub_task."""
        held = [(s.id, s.token) for s in self.model.sub_tasks.values() if s.token and s.status == "claimed"]
        recent = self.granted[-20:]
        if number < 20 and held:
            return held[number % len(held)]
        if number == 30:
            return UNKNOWN + 1, NOBODY
        if number == 29:
            return recent[-1][0], recent[0][1]
        if number == 28:
            return recent[-1][0], NOBODY
        return recent[-1 - number % len(recent)]

    # maintenance

    @rule(step=st.sampled_from(["expire", "promote", "end", "keep house"]))
    def maintain(self, step: str) -> None:
        self._tick()
        if step == "promote":
            self._same("promote", self._value("SELECT rvq.promote_due(1000)"), self.model.promote())
        elif step == "end":
            self._same(
                "end", self._value("SELECT (rvq.end_overdue_tasks(1000)).ended"), self.model.end_overdue()
            )
        elif step == "keep house":
            self._keep_house()
        else:
            self._same("expire", self._value("SELECT (rvq.expire_leases(1000)).expired"), self.model.expire())

    def _keep_house(self) -> None:
        """What nobody may notice."""
        self._value("SELECT rvq.fold_counters()")
        self._value("SELECT (rvq.raise_claim_floors('', 1000)).raised")
        assert self._value("SELECT stranded FROM rvq.sweep_stranded_tasks(0, 1000)") == 0
        assert self.database.drift() == []

    # dispatcher

    @rule(
        number=index,
        step=st.sampled_from(
            [
                "claim",
                "claim",
                "delivered",
                "dead",
                "retry",
                "release",
                "expire",
                "wait and expire",
                "redeliver",
            ]
        ),
    )
    def deliver(self, number: int, step: str) -> None:
        if step == "wait and expire":
            self.model.now += 30 * SECOND
        self._tick()
        if step == "claim":
            self._claim_deliveries()
        elif step == "redeliver":
            self._redeliver(self._task(number))
        elif step.endswith("expire"):
            found = self._value("SELECT rvq.expire_delivery_leases(100)")
            self._same("expire delivery", found, self.model.expire_deliveries())
        elif self.sent:
            self._settle(*self.sent[-1 - number % min(len(self.sent), 6)], step)

    def _claim_deliveries(self) -> None:
        rows = self.database.rows(
            "SELECT id, attempt, tries, lease_token::text FROM rvq.claim_deliveries(100, 30, 100)"
        )
        taken = [(id_, self.model.deliveries[id_]) for id_ in self.model.claim_deliveries(30 * SECOND)]
        expected = {(id_, delivery.attempt, delivery.tries) for id_, delivery in taken}
        assert {row[:3] for row in rows} == expected
        for row in rows:
            self.model.deliveries[row[0]].token = row[3]
            self.sent.append((row[0], row[3]))

    def _settle(self, id_: int, token: str, decision: str) -> None:
        if decision == "release":
            found = self._value("SELECT rvq.release_deliveries(%s,%s::uuid[])", [id_], [token])
            self._same("release delivery", found, self.model.release_delivery(id_, token))
            return
        found = self._value(
            "SELECT rvq.settle_deliveries(%s,%s::uuid[],%s,'{5}','{0.5}',%s,'{500}','{null}','{null}')",
            [id_],
            [token],
            [decision],
            ["delivered" if decision == "delivered" else "http_error"],
        )
        expected = self.model.settle(id_, token, decision, 5 * SECOND)
        assert found == expected
        self.seen.add(f"{decision} {bool(expected)}")

    def _redeliver(self, task_id: int) -> None:
        found = self._value("SELECT rvq.redeliver_task(%s)", task_id)
        self._same("redeliver", found, self.model.redeliver(task_id))

    # after each step

    @invariant()
    def everything_is_the_same(self) -> None:
        found = self._value("EXECUTE look")
        self._take_over_back_off(found["sub_tasks"] or [])
        assert (found["tasks"] or []) == [task_row(task) for task in self.model.tasks.values()]
        assert (found["sub_tasks"] or []) == [
            sub_task_row(sub_task) for sub_task in self.model.sub_tasks.values()
        ]
        assert (found["events"] or []) == sorted(
            list(event) for task in self.model.tasks.values() for event in task.events
        )
        assert (found["deliveries"] or []) == sorted(
            [id_, d.due_at, d.attempt, d.tries, d.token]
            for id_, d in self.model.deliveries.items()
            if d.status == "pending"
        )
        assert found["stats"] == self.model.stats()

    def _take_over_back_off(self, rows: list[list[Any]]) -> None:
        """What jitter chose, which must be within its range."""
        for row in rows:
            sub_task = self.model.sub_tasks.get(row[0])
            if sub_task and isinstance(sub_task.due_at, tuple):
                low, high = sub_task.due_at
                assert low <= (row[8] or 0) <= high
                sub_task.due_at = row[8]

    def teardown(self) -> None:
        assert self.database.drift() == []

    def _time(self, moment: int | None) -> datetime | None:
        return None if moment is None else self.base + timedelta(microseconds=moment)

    def _micros(self, moment: datetime | None) -> int | None:
        return None if moment is None else (moment - self.base) // timedelta(microseconds=1)
