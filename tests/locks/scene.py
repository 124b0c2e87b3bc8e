"""A database in which every operation has much to do, and every operation doing it.

Everything is created in the reverse order of its queued_at, so that the order of ids (that of an index scan)
and the documented order (queued_at, id) are opposite: whoever forgets to sort is seen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.sql.calls import URL, Calls, Lease
from tests.support.creating import CREATE, NewTask, create_params
from tests.support.database import Database
from tests.support.lock_order import Operation

T = TypeVar("T")

HOSTS = ("a.example", "b.example", "c.example")
DAY = 86_400.0
# When the operations run, after everything was made: all leases and deadlines have passed.
LATER = 3_600.0


@dataclass
class Scene:
    """What was made. `noon`: the clock offset at which time 0 of the scene is noon tomorrow."""

    noon: float = 0.0
    tasks: dict[str, int] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    deliveries: list[tuple[int, str]] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)

    def of(self, *names: str) -> list[Lease]:
        """The leases held on the sub_tasks of these tasks."""
        ids = {self.tasks[name] for name in names}
        return [lease for lease in self.leases if lease.id & -16384 in ids]


class _Maker:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.rvq = Calls(database.main)
        self.scene = Scene()
        sql = "SELECT extract(epoch FROM date_trunc('day', now(), 'UTC') + '36 hours' - now())::float8"
        self.scene.noon = float(database.value(sql))

    def at(self, seconds: float) -> Calls:
        """Calls at that time of the scene."""
        self.database.rows("SET rvq.clock_offset = %s", (str(self.scene.noon + seconds),))
        return self.rvq

    def make(self) -> Scene:
        self._make_expired_day()
        self._make_finished_tasks()
        self._make_deliveries()
        self._make_open_tasks()
        self._claim()
        self._make_stranded_tasks()
        self._make_counters()
        self._make_long_waits()
        return self.scene

    def _make_expired_day(self) -> None:
        rvq = self.at(-60 * DAY)
        self.database.rows("SELECT rvq.create_partitions(0)")
        rvq.create()
        rvq.succeed(rvq.claim_one())

    def _make_finished_tasks(self) -> None:
        """Failed ones to try again, and one delivery for each that succeeded."""
        for number in range(12):
            rvq = self.at(-1000 - number)
            rvq.create(
                2,
                webhook=URL,
                host=HOSTS[number % 3],
                queue=f"q{number % 2}",
                key=f"key-{number}",
                body_hash=b"\0",
            )
            leases = rvq.claim(2, queues=["q0", "q1"])
            rvq.succeed(*leases)
        rvq = self.at(-1020)
        for name, policy in (("failed", "all"), ("failed_fast", "fail_fast")):
            self.scene.tasks[name] = rvq.create(3, webhook=URL, policy=policy)
            rvq.fail_for_good(*rvq.claim(3))

    def _make_deliveries(self) -> None:
        """Two dead, six being sent, the rest due; two hosts that failed already."""
        self.at(-900)
        self.scene.dead = [id_ for id_, _ in self._claim_deliveries(1)]
        self._settle(self.scene.dead, "dead", "http_error")
        self.scene.deliveries = self._claim_deliveries(2)
        self._insert_hosts()

    def _claim_deliveries(self, host_limit: int) -> list[tuple[int, str]]:
        sql = "SELECT id, lease_token FROM rvq.claim_deliveries(100, 30, %s)"
        self._tokens: dict[int, str] = dict(self.database.rows(sql, (host_limit,)))
        return list(self._tokens.items())

    def _settle(self, ids: Sequence[int], decision: str, outcome: str) -> None:
        operation = settle("", [(id_, self._tokens[id_]) for id_ in ids], [decision], [outcome])
        self.database.rows(operation.sql, operation.params)

    def _insert_hosts(self) -> None:
        self.database.rows(
            "INSERT INTO rvq.webhook_hosts (host, failures) VALUES (%s, 1), (%s, 4)", HOSTS[:2]
        )

    def _make_open_tasks(self) -> None:
        """Each older than the one before it."""
        shapes: list[dict[str, object]] = [
            {"name": "all", "webhook": URL},
            {"name": "all_too", "webhook": URL},
            {"name": "fast", "policy": "fail_fast", "webhook": URL, "max_attempts": 1},
            {"name": "some", "policy": "at_least", "required": 1},
            {"name": "some_too", "policy": "at_least", "required": 1, "webhook": URL},
            {"name": "late", "deadline": 100, "queue": "q1", "max_attempts": 1},
            {"name": "fast_late", "policy": "fail_fast", "deadline": 100, "webhook": URL, "max_attempts": 1},
        ]
        for number, shape in enumerate(shapes):
            name = str(shape.pop("name"))
            self.scene.tasks[name] = self.at(-10.0 - 10 * number).create(3, **shape)
        rvq = self.at(-100)
        for seconds in (90, 60):
            moment = self.database.value("SELECT rvq.clock() + make_interval(secs => %s)", (seconds,))
            self.scene.tasks[f"due_{seconds}"] = rvq.create(2, not_before=moment)

    def _claim(self) -> None:
        """All but the last sub_task of each task, which goes back to its queue."""
        rvq = self.at(-101)
        leases = rvq.claim(1000, queues=["default", "q1"])
        last = [lease for lease in leases if lease.id & 16383 == 3]
        rvq.release(*last)
        self.scene.leases = [lease for lease in leases if lease not in last]

    def _make_stranded_tasks(self) -> None:
        """By hand: nothing in RVQ makes one."""
        for number in range(2):
            task_id = self.at(-200 - number).create(1, webhook=URL, queue="stranded")
            self.database.rows("DELETE FROM rvq.open_sub_tasks WHERE id = %s", (task_id + 1,))

    def _make_counters(self) -> None:
        """Folded ones of some queues, deltas of more."""
        rvq = self.at(0)
        rvq.fold()
        for queue in ("z", "q1", "a", "default"):
            rvq.create(1, queue=queue)
        rvq.create(2, queue="below")
        self.database.rows("INSERT INTO rvq.queues (queue, claim_floor) VALUES ('below', 'infinity')")

    def _make_long_waits(self) -> None:
        """A lease and a delivery's try of before the clock was set back."""
        rvq = self.at(0)
        rvq.create(1, queue="ahead", webhook=URL, host="ahead.example")
        rvq.succeed(rvq.claim_one(queues=["ahead"]))
        self.database.rows("UPDATE rvq.due_deliveries SET due_at = 'infinity' WHERE host = 'ahead.example'")
        rvq.create(1, queue="ahead")
        lease = rvq.claim_one(queues=["ahead"])
        ahead = "UPDATE rvq.open_sub_tasks SET lease_expires_at = 'infinity' WHERE id = %s"
        self.database.rows(ahead, (lease.id,))


def make_scene(database: Database) -> Scene:
    return _Maker(database).make()


def complete(name: str, leases: Sequence[Lease], report: str = "mixed") -> Operation:
    """`report`: succeeded, failed, retryable, or mixed: every third of each."""
    kinds = ("succeeded", "failed", "retryable")
    chosen = [kinds[number % 3] if report == "mixed" else report for number in range(len(leases))]
    succeeded = [kind == "succeeded" for kind in chosen]
    return Operation(
        name,
        "SELECT rvq.complete_sub_tasks(%s, %s::bigint[], %s::uuid[], %s, %s::text[], %s::text[], %s,"
        " %s::float8[])",
        (
            ["w"] * len(leases),
            [lease.id for lease in leases],
            [lease.token for lease in leases],
            succeeded,
            ["1" if good else None for good in succeeded],
            [None if good else '{"message":"boom"}' for good in succeeded],
            [kind == "retryable" for kind in chosen],
            [None] * len(leases),
        ),
    )


def settle(
    name: str, deliveries: Sequence[tuple[int, str]], decisions: Sequence[str], outcomes: Sequence[str]
) -> Operation:
    """Decisions and outcomes are dealt in turn."""
    n = len(deliveries)
    return Operation(
        name,
        "SELECT rvq.settle_deliveries(%s::bigint[], %s::uuid[], %s, %s, %s, %s, %s::int[], %s::text[],"
        " %s::bytea[])",
        (
            [id_ for id_, _ in deliveries],
            [token for _, token in deliveries],
            [decisions[number % len(decisions)] for number in range(n)],
            [5.0] * n,
            [0.5] * n,
            [outcomes[number % len(outcomes)] for number in range(n)],
            [500] * n,
            [None] * n,
            [None] * n,
        ),
    )


def _named(name: str, function: str, leases: Sequence[Lease]) -> Operation:
    sql = f"SELECT rvq.{function}%s::bigint[], %s::uuid[])"
    return Operation(name, sql, ([lease.id for lease in leases], [lease.token for lease in leases]))


def operations(scene: Scene) -> list[Operation]:
    return [*_of_partners(scene), *_of_workers(scene), *_of_maintenance(scene), *_of_dispatchers(scene)]


def _of_partners(scene: Scene) -> list[Operation]:
    def create(name: str, *keys: str) -> Operation:
        url, host = "https://a.example/", "a.example"
        new = [
            NewTask(["1", "2"], [1, 1], "new", None, url, host, deadline=60, key=key, body_hash=b"0")
            for key in keys
        ]
        return Operation(name, CREATE, create_params(*new))

    tasks = scene.tasks
    return [
        create("create", "new-key"),
        create("create, replayed", "key-3"),
        create("create several", "newer-key", "key-4", "new-key", "key-3"),
        Operation("cancel", "SELECT rvq.cancel_task(%s)", (tasks["all"],)),
        Operation("cancel, gated", "SELECT rvq.cancel_task(%s)", (tasks["fast"],)),
        Operation("retry", "SELECT rvq.retry_task(%s)", (tasks["failed"],)),
        Operation("retry, gated", "SELECT rvq.retry_task(%s)", (tasks["failed_fast"],)),
        Operation("retry of an open task", "SELECT rvq.retry_task(%s)", (tasks["all"],)),
        Operation("pause", "SELECT rvq.set_queue_paused('q1', true)"),
        Operation(
            "redeliver", "SELECT rvq.redeliver(%s)", ([*scene.dead, scene.deliveries[0][0], *_due(scene)],)
        ),
        Operation("redeliver a task", "SELECT rvq.redeliver_task(%s)", (scene.dead[0] & -16384,)),
        Operation("repair", "SELECT rvq.repair_counters()"),
    ]


def _due(scene: Scene) -> list[int]:
    """The events of the tasks that failed: their deliveries are pending or being sent."""
    return [scene.tasks["failed"], scene.tasks["failed_fast"]]


def _of_workers(scene: Scene) -> list[Operation]:
    claim = "SELECT rvq.claim_sub_tasks('{w}', ARRAY[%s], 60, %s)"
    mixed = _shuffled(scene.leases)
    ungated = _shuffled(scene.of("all", "all_too", "late"))
    gated = _shuffled(scene.of("fast", "some", "some_too", "fast_late"))
    return [
        Operation("claim", claim, (3, ["default"]), waits=False),
        Operation("claim everything", claim, (1000, ["q1", "z", "default", "a"]), waits=False),
        complete("complete", mixed),
        complete("complete in reverse", mixed[::-1]),
        complete("complete, all succeeded", _shuffled(scene.leases), "succeeded"),
        complete("complete, all failed", _shuffled(scene.leases), "failed"),
        complete("complete, to be retried", _shuffled(scene.leases), "retryable"),
        complete("complete, no gates", ungated, "succeeded"),
        complete("complete, gates only", gated),
        _named("heartbeat", "heartbeat_sub_tasks(60, ", mixed),
        _named("release", "release_sub_tasks(", mixed[::-1]),
    ]


def _of_maintenance(scene: Scene) -> list[Operation]:
    return [
        Operation("expire leases", "SELECT rvq.expire_leases(1000)"),
        Operation("expire a few leases", "SELECT rvq.expire_leases(5)"),
        Operation("promote", "SELECT rvq.promote_due(1000)", waits=False),
        Operation("end overdue tasks", "SELECT rvq.end_overdue_tasks(1000)"),
        Operation("sweep", "SELECT rvq.sweep_stranded_tasks(0, 1000)"),
        Operation("fold", "SELECT rvq.fold_counters()"),
        Operation("raise floors", "SELECT rvq.raise_claim_floors('', 1000)"),
        Operation("rescue", "SELECT rvq.rescue_below_floors()", waits=False),
        Operation("follow the clock", "SELECT rvq.follow_clock(0, 1000)", waits=False),
        Operation("end abandoned tasks", "SELECT rvq.end_abandoned_tasks(0, 0, 1000)"),
        Operation("give up deliveries", "SELECT rvq.give_up_deliveries(0, 1000)", waits=False),
        Operation("check admission", "SELECT rvq.check_admission()"),
        Operation("make partitions", "SELECT rvq.create_partitions(8)"),
        Operation("retention", "SELECT rvq.drop_expired_partitions(30)", waits=False),
    ]


def _of_dispatchers(scene: Scene) -> list[Operation]:
    deliveries = _shuffled(scene.deliveries)
    ids, tokens = [list(column) for column in zip(*deliveries, strict=True)]
    outcomes = ["delivered", "timeout", "http_error", "timeout"]
    return [
        Operation("claim deliveries", "SELECT rvq.claim_deliveries(100, 30, 10)", waits=False),
        settle("settle", deliveries, ["delivered", "retry", "dead", "retry"], outcomes),
        settle("settle in reverse", deliveries[::-1], ["retry"], ["timeout"]),
        Operation(
            "release deliveries", "SELECT rvq.release_deliveries(%s::bigint[], %s::uuid[])", (ids, tokens)
        ),
        Operation("expire deliveries", "SELECT rvq.expire_delivery_leases(1000)", waits=False),
    ]


def _shuffled(items: Sequence[T]) -> list[T]:
    """In an order of its own, but the same every time."""
    return random.Random(len(items)).sample(list(items), len(items))
