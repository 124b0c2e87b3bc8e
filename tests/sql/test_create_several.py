"""Several tasks in one call: each as if it had come alone."""

from __future__ import annotations

from datetime import timedelta

from tests.sql.calls import Calls
from tests.support.creating import NewTask


def test_each_has_its_own_sub_tasks_queue_and_attempts(rvq: Calls) -> None:
    first, second = rvq.post_several(
        NewTask(["1", "2", "3"], [1, 2, 3], "b", '{"n":1}'), NewTask(["4"], [4], "a", '{"n":2}')
    )
    assert [(s.id, s.payload, s.max_attempts) for s in rvq.sub_tasks(first.task_id)] == [
        (first.task_id + 1, "1", 1), (first.task_id + 2, "2", 2), (first.task_id + 3, "3", 3),
    ]  # fmt: skip
    assert [(s.payload, s.max_attempts) for s in rvq.sub_tasks(second.task_id)] == [("4", 4)]
    tasks = [rvq.task(made.task_id) for made in (first, second)]
    assert [(task.queue, task.metadata, task.total) for task in tasks] == [
        ("b", '{"n":1}', 3),
        ("a", '{"n":2}', 1),
    ]
    assert len(rvq.claim(10, queues=["b"])) == 3
    assert len(rvq.claim(10, queues=["a"])) == 1


def test_one_may_wait_for_its_time_while_the_others_are_queued(rvq: Calls) -> None:
    later = rvq.value("SELECT rvq.clock()") + timedelta(hours=1)
    made = rvq.post_several(NewTask(), NewTask(not_before=later), NewTask())
    assert [one.scheduled for one in made] == [False, True, False]
    assert [rvq.statuses(one.task_id) for one in made] == [["queued"], ["scheduled"], ["queued"]]
    (waiting,) = rvq.sub_tasks(made[1].task_id)
    assert waiting.queued_at == later


def test_policies_and_deadlines_are_each_ones_own(rvq: Calls) -> None:
    made = rvq.post_several(
        NewTask(["1"] * 3, [1] * 3, policy="at_least", required=2),
        NewTask(["1"] * 2, [1] * 2, policy="fail_fast", deadline=60),
        NewTask(),
    )
    tasks = [rvq.task(one.task_id) for one in made]
    assert [(task.policy, task.required, task.deadline_seconds) for task in tasks] == [
        ("at_least", 2, None), ("fail_fast", None, 60), ("all", None, None),
    ]  # fmt: skip


def test_twins_in_one_call_make_one_task(rvq: Calls) -> None:
    twin = NewTask(key="k", body_hash=b"1")
    first, second, other = rvq.post_several(twin, twin, NewTask(key="k", body_hash=b"2"))
    assert [one.outcome for one in (first, second, other)] == ["created", "replayed", "conflict"]
    assert first.task_id == second.task_id == other.task_id
    assert first.created_at == second.created_at
    assert rvq.value("SELECT count(*) FROM rvq.tasks") == 1


def test_known_keys_new_keys_and_none_are_told_apart(rvq: Calls) -> None:
    known = rvq.post(key="a", body_hash=b"1")
    made = rvq.post_several(
        NewTask(key="z", body_hash=b"1"),
        NewTask(),
        NewTask(key="a", body_hash=b"1"),
        NewTask(key="b", body_hash=b"1"),
    )
    assert [one.outcome for one in made] == ["created", "created", "replayed", "created"]
    assert (made[2].task_id, made[2].created_at) == (known.task_id, known.created_at)
    assert rvq.value("SELECT count(*) FROM rvq.tasks") == 4


def test_when_tasks_are_refused_replays_are_still_answered(rvq: Calls) -> None:
    known = rvq.post(key="a", body_hash=b"1")
    rvq.rows("UPDATE rvq.admission SET refusal = 'too much', checked_at = rvq.clock()")
    made = rvq.post_several(
        NewTask(),
        NewTask(key="a", body_hash=b"1"),
        NewTask(key="a", body_hash=b"2"),
        NewTask(key="b", body_hash=b"1"),
    )
    assert [one.outcome for one in made] == ["refused", "replayed", "conflict", "refused"]
    assert made[1].task_id == known.task_id
    assert rvq.value("SELECT count(*) FROM rvq.idempotency_keys") == 1
