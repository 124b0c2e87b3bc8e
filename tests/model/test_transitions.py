"""One walk, chosen by hand, that takes every transition of the pictures in docs/concepts.md.

The random walks refuse any other transition (tests/model/states.py): together they say that the pictures are
exact.
"""

from __future__ import annotations

from tests.model.drill import DrilledMachine
from tests.model.machine import Machine
from tests.model.model import SECOND, Report, SubTask, Task
from tests.model.states import Stateful, all_transitions


class Walk:
    """Steps that are named as a reader would say them. After each the database and the model are compared."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.model = machine.model
        machine.start_again()

    def create(self, sub_tasks: int, deadline: int | None = None, start: int | None = None) -> Task:
        self.machine.create(("a", [3] * sub_tasks, "all", 1, deadline, start, True, (None, b"")))
        self.machine.everything_is_the_same()
        return [*self.model.tasks.values()][-1]

    def wait(self, seconds: int) -> None:
        self.model.now += seconds * SECOND

    def claim(self) -> None:
        self.machine.claim("w", 50, 10, ("a",))
        self.machine.everything_is_the_same()

    def release(self, task: Task) -> None:
        held = [(s.id, s.token or "") for s in task.sub_tasks]
        self.machine._tick()
        sql = "SELECT rvq.release_sub_tasks(%s,%s::uuid[])"
        found = self.machine._value(sql, [id_ for id_, _ in held], [token for _, token in held])
        assert found == self.model.release(held)
        self.machine.everything_is_the_same()

    def report(self, sub_task: SubTask, kind: str, retry_after: int | None = None) -> None:
        self.machine._tick()
        reports = [Report(sub_task.id, sub_task.token or "", kind, retry_after)]
        assert self.machine._complete("w", reports) == self.model.complete("w", reports)
        self.machine.everything_is_the_same()

    def maintain(self, step: str) -> None:
        self.machine.maintain(step)
        self.machine.everything_is_the_same()

    def administer(self, step: str, task: Task) -> None:
        self.machine._tick()
        {"cancel": self.machine._cancel, "retry": self.machine._retry}[step](task.id)
        self.machine.everything_is_the_same()

    def deliver(self, step: str) -> None:
        self.machine.deliver(0, "claim")
        self.machine.deliver(0, step)
        self.machine.everything_is_the_same()

    def redeliver(self, task: Task) -> None:
        self.machine._tick()
        self.machine._redeliver(task.id)
        self.machine.everything_is_the_same()


def test_one_walk_takes_every_transition(machine: type[DrilledMachine]) -> None:
    Stateful.taken.clear()
    walk = Walk(machine())
    report_late(walk, promoted=False)
    report_late(walk, promoted=True)
    fail_and_retry(walk)
    cancel_early(walk)
    walk.machine.teardown()
    assert all_transitions() - Stateful.taken == set()


def report_late(walk: Walk, *, promoted: bool) -> None:
    """Leases expire, and nobody takes the work over before the report comes: it counts."""
    task = walk.create(sub_tasks=4)
    walk.claim()
    walk.wait(11)
    walk.maintain("expire")
    if promoted:
        walk.wait(2)
        walk.maintain("promote")
    one, two, three, four = task.sub_tasks
    walk.report(one, "succeeded")
    walk.report(two, "final")
    walk.report(three, "retry", 60 * SECOND)
    walk.report(four, "retry", 0)
    walk.administer("cancel", task)


def fail_and_retry(walk: Walk) -> None:
    task = walk.create(sub_tasks=1, deadline=50)
    walk.wait(51)
    walk.maintain("end")
    walk.deliver("retry")
    walk.administer("retry", task)
    walk.claim()
    walk.release(task)
    walk.claim()
    walk.report(task.sub_tasks[0], "final")
    walk.deliver("dead")
    walk.redeliver(task)
    walk.deliver("delivered")
    walk.redeliver(task)
    walk.administer("retry", task)
    walk.claim()
    walk.report(task.sub_tasks[0], "succeeded")


def cancel_early(walk: Walk) -> None:
    task = walk.create(sub_tasks=1, start=30)
    walk.wait(31)
    walk.maintain("promote")
    walk.administer("cancel", task)
    task = walk.create(sub_tasks=1)
    walk.claim()
    walk.administer("cancel", task)
