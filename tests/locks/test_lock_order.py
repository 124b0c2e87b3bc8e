"""Every operation takes its locks in the one documented order (design D2), as seen in PostgreSQL."""

from __future__ import annotations

import re
from itertools import combinations, combinations_with_replacement

import pytest

from tests.locks.scene import LATER, Scene, operations
from tests.support.database import Database
from tests.support.interleavings import find_deadlock
from tests.support.lock_order import LockObserver, Observation, Step
from tests.support.mutation import Mutation
from tests.support.sql_source import callers, function_files

# What waits for other writers without a place in the order, and its own tests in test_waiting.py.
APART = {"reset"}
# The operations that lock the most of what others lock too.
BUSIEST = (
    "complete",
    "complete in reverse",
    "expire leases",
    "end overdue tasks",
    "cancel, gated",
    "release",
)
WRITES = re.compile(r"\b(INSERT INTO|UPDATE rvq|DELETE FROM|rvq\.hold_door\(\)|pg_advisory\w+lock|EXECUTE)")


@pytest.fixture(scope="module")
def observations(stage: tuple[Database, Scene]) -> list[Observation]:
    """All operations, watched."""
    database, scene = stage
    observer = LockObserver(database, scene.noon + LATER)
    return [observer.observe(operation) for operation in operations(scene)]


def test_no_operation_waits_for_a_lock_while_it_holds_a_later_one(observations: list[Observation]) -> None:
    assert [violation for one in observations for violation in one.violations()] == []


def test_the_scene_gives_every_kind_of_lock_to_wait_for(observations: list[Observation]) -> None:
    waited = {lock.kind for one in observations for lock in one.held_at}
    assert waited == {
        "door", "idempotency_keys", "partitions", "claimers", "repairers", "gate", "open_sub_tasks",
        "open_tasks", "counter_deltas", "counters", "due_deliveries", "webhook_hosts", "queues", "admission",
    }  # fmt: skip
    busy = {one.operation.name: len(one.taken) for one in observations}
    assert min(busy[name] for name in BUSIEST) > 5


def test_claiming_and_other_steps_over_a_batch_never_wait_for_a_row(observations: list[Observation]) -> None:
    chosen = [one for one in observations if not one.operation.waits]
    assert len(chosen) == 9
    waits = {one.operation.name: sorted({lock.kind for lock in one.held_at}) for one in chosen}
    assert waits.pop("claim deliveries") == ["claimers", "door"]
    assert all(kinds == ["door"] for kinds in waits.values())
    assert all(one.passed_over() for one in chosen if one.operation.name != "retention")


def test_claim_locks_nothing_but_the_sub_tasks_it_hands_out(observations: list[Observation]) -> None:
    (claim,) = [one for one in observations if one.operation.name == "claim"]
    assert sorted(lock.kind for lock in claim.taken) == ["door"] + ["open_sub_tasks"] * 3


def test_no_two_operations_can_deadlock_however_they_interleave(observations: list[Observation]) -> None:
    paths = [(one.operation.name, one.steps()) for one in observations]
    found = [
        (first, second, deadlock)
        for (first, one), (second, two) in combinations_with_replacement(paths, 2)
        if (deadlock := find_deadlock([one, two]))
    ]
    assert found == []


def test_no_three_of_the_busiest_operations_can_deadlock(observations: list[Observation]) -> None:
    paths = {
        one.operation.name: thinned(one.steps()) for one in observations if one.operation.name in BUSIEST
    }
    assert len(paths) == len(BUSIEST)
    found = [names for names in combinations(paths, 3) if find_deadlock([paths[name] for name in names])]
    assert found == []


def thinned(steps: list[Step]) -> list[Step]:
    """At most four locks of each kind: three whole operations have too many interleavings."""
    kept: list[Step] = []
    for step in steps:
        if sum(step.lock.kind == other.lock.kind for other in kept) < 4:
            kept.append(step)
    return kept


def test_every_function_that_writes_or_locks_is_watched(stage: tuple[Database, Scene]) -> None:
    watched = {name for one in operations(stage[1]) for name in re.findall(r"rvq\.(\w+)\(", one.sql)}
    assert writers_with_callers() - APART == watched


def writers_with_callers() -> set[str]:
    """Return the SQL functions that the app or the dispatcher calls, and that write or lock."""
    return {
        path.stem
        for path in function_files()
        for text in [path.read_text()]
        if any(caller.startswith(("app/", "dispatcher/")) for caller in callers()[path.stem])
        and re.search(r"^LANGUAGE \w+ VOLATILE", text, re.MULTILINE)
        and WRITES.search(text)
    }


BROKEN = [
    (Mutation("the last first", "lock_sub_tasks", "s.queued_at, s.id", "s.queued_at DESC, s.id"), "complete"),
    (Mutation("no order", "lock_sub_tasks", "ORDER BY s.queued_at, s.id", ""), "heartbeat"),
    (Mutation("by id", "lock_sub_tasks", "s.queued_at, s.id", "s.id"), "expire leases"),
    (
        Mutation("tasks backwards", "advance_tasks", "ORDER BY e.task_id", "ORDER BY e.task_id DESC"),
        "complete, no gates",
    ),
    (
        Mutation("gates backwards", "hold_gates", "AS i ORDER BY 1 LOOP", "AS i ORDER BY 1 DESC LOOP"),
        "complete",
    ),
    (Mutation("siblings late", "siblings_to_lock", "IS NOT NULL", "IS NULL"), "complete, gates only"),
    (Mutation("hosts backwards", "record_host_health", "ORDER BY s.host", "ORDER BY s.host DESC"), "settle"),
    (Mutation("settle backwards", "settle_deliveries", "ORDER BY d.id", "ORDER BY d.id DESC"), "settle"),
    (Mutation("counters backwards", "fold_counters", "ORDER BY d.queue", "ORDER BY d.queue DESC"), "fold"),
]


@pytest.mark.parametrize(("mutation", "name"), BROKEN, ids=[mutation.name for mutation, _ in BROKEN])
def test_a_function_that_breaks_the_order_is_caught(
    broken_stage: tuple[Database, Scene], mutation: Mutation, name: str
) -> None:
    assert observe_broken(broken_stage, mutation, name)[0].violations() != []


def test_a_claim_that_waits_is_caught(broken_stage: tuple[Database, Scene]) -> None:
    """Claim and what it is made of, by whatever name."""
    database, _ = broken_stage
    skipping = "SELECT proname FROM pg_proc WHERE prosrc LIKE '%%FOR UPDATE SKIP LOCKED%%'"
    for function in database.column(skipping):
        Mutation("", function, "FOR UPDATE SKIP LOCKED", "FOR UPDATE").apply(database)
    (claim,) = observe(broken_stage, "claim")
    assert "open_sub_tasks" in {lock.kind for lock in claim.held_at}


def test_operations_that_lock_in_the_callers_order_are_found_to_deadlock(
    broken_stage: tuple[Database, Scene],
) -> None:
    by_caller = Mutation("", "lock_sub_tasks", "s.queued_at, s.id", "array_position(p_ids, s.id)")
    observed = observe_broken(broken_stage, by_caller, "heartbeat", "release")
    assert find_deadlock([one.steps() for one in observed]) is not None


def observe_broken(stage: tuple[Database, Scene], mutation: Mutation, *names: str) -> list[Observation]:
    mutation.apply(stage[0])
    return observe(stage, *names)


def observe(stage: tuple[Database, Scene], *names: str) -> list[Observation]:
    database, scene = stage
    observer = LockObserver(database, scene.noon + LATER)
    return [observer.observe(operation) for operation in operations(scene) if operation.name in names]
