"""While the queue is about to degrade, new tasks are refused with the reason; everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.app.rig import Caller
from tests.support.database import Database

TASK = {"sub_tasks": [{"payload": 1}]}


@pytest.fixture
def backlogged(api: Caller, database: Database) -> Iterator[Caller]:
    """Yield the API while one sub_task waits and none may."""
    api.partner("POST", "/v1/tasks", TASK, headers={"Idempotency-Key": "before"}).expect(201)
    database.rows("UPDATE rvq.admission SET max_backlog = 0")
    database.rows("SELECT rvq.fold_counters()")
    database.rows("SELECT rvq.check_admission()")
    yield api
    database.rows("UPDATE rvq.admission SET max_backlog = 20000000, refusal = NULL")


def test_a_new_task_is_refused_with_the_reason_and_a_time_to_come_back(backlogged: Caller) -> None:
    response = backlogged.partner("POST", "/v1/tasks", TASK)
    assert response.problem(503, "overloaded").detail == "1 sub_tasks wait; the bound is 0"
    assert int(response.headers["Retry-After"]) >= 1


def test_a_replay_a_claim_and_a_complete_are_answered_and_let_it_recover(
    backlogged: Caller, database: Database
) -> None:
    replay = backlogged.partner("POST", "/v1/tasks", TASK, headers={"Idempotency-Key": "before"})
    assert replay.expect(200)["counts"]["queued"] == 1
    claimed = backlogged.worker("claim", {"worker_id": "w"}).expect(200)["sub_tasks"][0]
    report = {"id": claimed["id"], "lease_token": claimed["lease_token"], "status": "succeeded"}
    done = backlogged.worker("complete", {"worker_id": "w", "results": [report]})
    assert [result["outcome"] for result in done.expect(200)["results"]] == ["succeeded"]
    database.rows("SELECT rvq.fold_counters()")
    database.rows("SELECT rvq.check_admission()")
    backlogged.partner("POST", "/v1/tasks", TASK).expect(201)
