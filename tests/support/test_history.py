"""The checker of client histories finds each kind of fault, and none where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.history import Entry, Final, Recorder, faults, read

NOW = 1_700_000_000.0


def text(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat()


def event(number: int = 0) -> dict[str, Any]:
    return {"id": f"evt_{number}", "data": {"task_id": "t", "status": "succeeded"}}


def lease(token: str, expires: float, attempt: int = 1) -> dict[str, Any]:
    return {"id": "s", "lease_token": token, "lease_expires_at": text(expires), "attempt": attempt}


def claim(at: float, *leases: dict[str, Any]) -> Entry:
    return Entry("claim", NOW + at, {}, NOW + at + 0.1, 200, {"sub_tasks": list(leases)})


def complete(at: float, token: str, outcome: str | None, result: object = 1) -> Entry:
    report = {"id": "s", "lease_token": token, "status": "succeeded", "result": result}
    entry = Entry("complete", NOW + at, {"results": [report]})
    if outcome is None:
        return entry
    return replace(entry, answered=NOW + at + 0.1, status=200, answer={"results": [{"outcome": outcome}]})


def heartbeat(at: float, token: str, seconds: int) -> Entry:
    request = {"lease_seconds": seconds, "leases": [{"id": "s", "lease_token": token}]}
    return Entry("heartbeat", NOW + at, request, NOW + at + 0.1, 200, {"results": [{"outcome": "extended"}]})


def webhook(at: float, number: int = 0, body: object = None) -> Entry:
    document = json.dumps(body or {"data": event()["data"]})
    return Entry("webhook", NOW + at, {"id": f"evt_{number}", "body": document}, NOW + at, 204)


def clock(at: float, seconds: float) -> Entry:
    return Entry("clock", NOW + at, {"seconds": seconds}, NOW + at, 200)


CREATE = Entry("create", NOW, {"metadata": {"key": "k"}}, NOW, 201, {"id": "t"})
GOOD = [CREATE, claim(1, lease("a", 10)), complete(2, "a", "succeeded"), webhook(3)]


def final(**changes: Any) -> Final:
    task = {"status": "succeeded", "metadata": {"key": "k"}, "counts": {"total": 1, "succeeded": 1}}
    sub_task = {"task_id": "t", "status": "succeeded", "result": 1}
    return Final(**{"tasks": {"t": task}, "sub_tasks": {"s": sub_task}, "events": [event()], **changes})


def with_sub_task(**changes: Any) -> Final:
    good = final()
    return replace(good, sub_tasks={"s": {**good.sub_tasks["s"], **changes}})


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(GOOD, id="plain"),
        pytest.param([*GOOD, webhook(9)], id="a webhook repeated"),
        pytest.param(
            [
                CREATE,
                claim(1, lease("a", 10)),
                claim(11, lease("b", 20, 2)),
                complete(12, "b", "succeeded"),
                webhook(13),
            ],
            id="a lease that ran out",
        ),
        pytest.param(
            [
                CREATE,
                claim(1, lease("a", 10)),
                complete(2, "a", None),
                complete(3, "a", "duplicate"),
                webhook(4),
            ],
            id="a report whose answer was lost",
        ),
        pytest.param(
            [
                CREATE,
                claim(1, lease("a", 10)),
                clock(2, 60),
                claim(3, lease("b", 73)),
                complete(4, "b", "succeeded"),
                webhook(5),
            ],
            id="a clock put ahead",
        ),
    ],
)
def test_a_history_in_which_all_is_well_has_no_fault(history: list[Entry]) -> None:
    assert faults(history, final()) == []


Case = tuple[list[Entry], Final]
BROKEN: dict[str, Callable[[], Case]] = {
    "was taken and is not there": lambda: ([*GOOD, replace(CREATE, answer={"id": "t2"})], final()),
    "key k made 2 tasks": lambda: (GOOD, replace(final(), tasks={**final().tasks, "t2": final().tasks["t"]})),
    "nobody sent key k": lambda: (GOOD[1:], final()),
    "s is claimed": lambda: (GOOD, with_sub_task(status="claimed")),
    "and has": lambda: (GOOD, with_sub_task(status="failed")),
    "was stored as succeeded and is failed": lambda: (GOOD, with_sub_task(status="failed")),
    "was stored as succeeded and is None": lambda: (GOOD, final(sub_tasks={})),
    "another result than the one that was stored": lambda: (GOOD, with_sub_task(result=2)),
    "a result that nobody reported": lambda: (GOOD, with_sub_task(result=2)),
    "s ended 2 times": lambda: ([*GOOD, complete(9, "b", "succeeded")], final()),
    "had 2 effective reports": lambda: ([*GOOD, complete(9, "a", "succeeded")], final()),
    "t has 0 events": lambda: (GOOD, final(events=[])),
    "t has 2 events": lambda: ([*GOOD, webhook(4, 1)], final(events=[event(), event(1)])),
    "says another end": lambda: (
        GOOD,
        final(events=[{"id": "evt_0", "data": {"task_id": "t", "status": "failed"}}]),
    ),
    "event of the unknown": lambda: (GOOD, final(tasks={})),
    "evt_0 never arrived": lambda: (GOOD[:-1], final()),
    "evt_1 is no event": lambda: ([*GOOD, webhook(4, 1)], final()),
    "came with 2 bodies": lambda: ([*GOOD, webhook(4, 0, {"data": {}})], final()),
    "is not what the feed says": lambda: ([*GOOD[:-1], webhook(4, 0, {"data": {"task_id": "x"}})], final()),
    "token a was given out 2 times": lambda: ([*GOOD, claim(20, lease("a", 30))], final()),
    "leased again (attempt 2)": lambda: (
        [*GOOD[:1], claim(0, lease("z", 9)), claim(5, lease("a", 15, 2)), *GOOD[2:]],
        final(),
    ),
    "4.900 s too soon": lambda: (
        [CREATE, claim(0, lease("z", 9)), heartbeat(8, "z", 7), claim(10, lease("a", 20, 2)), *GOOD[2:]],
        final(),
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_each_kind_of_fault_is_found(fault: str) -> None:
    history, end = BROKEN[fault]()
    assert any(fault in found for found in faults(history, end))


def test_what_a_killed_client_had_noted_is_read_back(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "one")
    recorder.call("create", {"a": 1}, lambda: (201, {"id": "t"}))

    def broken() -> tuple[int, Any]:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        recorder.call("claim", {"b": 2}, broken)
    first, second = read([tmp_path / "one"])
    assert (first.call, first.request, first.status, first.answer) == ("create", {"a": 1}, 201, {"id": "t"})
    assert (second.call, second.request, second.answered) == ("claim", {"b": 2}, None)
