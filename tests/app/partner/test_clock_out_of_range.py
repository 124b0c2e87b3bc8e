"""A database clock that can't be right: create answers 503 and says so, and every other call works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.db import Pool
from app.ids import FIRST_DAY, LAST_DAY
from app.partner.store import WARM_UP
from tests.app.rig import Caller, make_caller, succeeded
from tests.support.database import Database

YEAR = 366 * 86_400


@pytest.fixture(params=[-60 * YEAR, 100 * YEAR], ids=["before 2024", "after the last day"])
def api(request: pytest.FixtureRequest, api: Caller, database: Database) -> Iterator[Caller]:
    """Has a task with two sub_tasks of before the clock went wrong."""
    api.create(1, 2)
    database.move_clock(request.param)
    pool = Pool(database.url, 2, "rvq-api-test")
    pool.open(WARM_UP)
    yield make_caller(database.url, pool)
    pool.close()


def test_a_create_is_answered_with_a_problem_that_says_why(api: Caller) -> None:
    response = api.partner("POST", "/v1/tasks", {"sub_tasks": [{"payload": 1}]})
    problem = response.problem(503, "clock_out_of_range")
    assert problem.title == "The database's clock shows a day for which there are no ids"
    assert f"a day from {FIRST_DAY} to {LAST_DAY}" in problem.detail
    assert int(response.headers["Retry-After"]) > 0


def test_every_other_call_works(api: Caller) -> None:
    one, two = api.claim(2)
    assert api.complete([succeeded(one)]) == ["succeeded"]
    for path in ("/v1/tasks", "/v1/stats", "/v1/events", f"/v1/tasks/{one['task_id']}/sub_tasks"):
        api.partner("GET", path).expect(200)
    api.partner("POST", f"/v1/tasks/{two['task_id']}/cancel").expect(200)
    api.admin("GET", "audit").expect(200)
    ready = api.call("GET", "/readyz").expect(200)
    assert "create_partitions" in ready["behind"]
