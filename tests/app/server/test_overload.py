"""More calls than connections: a bounded wait, then 503 with Retry-After."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tests.app.process import Gunicorn
from tests.app.rig import PARTNER, Reply
from tests.app.server.test_gunicorn import TASK, backends, blocked
from tests.support.concurrency import wait_until
from tests.support.database import Database


def test_beyond_the_budget_it_sheds_and_then_recovers(
    gunicorn: Callable[..., Gunicorn], database: Database
) -> None:
    server = gunicorn(APP_DB_POOL="2", APP_PROCESSES="1")
    holder = database.connect(autocommit=False)
    database.rows("LOCK TABLE rvq.tasks IN ACCESS EXCLUSIVE MODE", on=holder)
    with ThreadPoolExecutor(40) as threads:
        calls: list[Future[Reply]] = [
            threads.submit(server.call, "POST", "/v1/tasks", TASK, token=PARTNER) for _ in range(40)
        ]
        wait_until(lambda: blocked(database) == 2, "both connections are blocked")
        # Fourteen may be under way or wait: each connection has six that wait for it.
        wait_until(lambda: sum(call.done() for call in calls) == 26, "the others were answered")
        assert server.call("GET", "/healthz").status == 200
        server.call("POST", "/v1/tasks", TASK, token=PARTNER).problem(503, "over_budget")
        holder.rollback()
        responses = [call.result(30) for call in calls]
    shed = [response for response in responses if response.status == 503]
    assert (len(shed), len(responses)) == (26, 40)
    for response in shed:
        response.problem(503, "over_budget")
        assert int(response.headers["Retry-After"]) >= 1
    assert [response.status for response in responses if response not in shed] == [201] * 14
    assert [server.call("POST", "/v1/tasks", TASK, token=PARTNER).status for _ in range(10)] == [201] * 10
    assert database.value("SELECT count(*) FROM rvq.tasks") == 24
    assert len(backends(database)) == 2


def test_a_call_that_waits_too_long_for_a_lock_is_503_and_changed_nothing(
    gunicorn: Callable[..., Gunicorn], database: Database
) -> None:
    server = gunicorn(APP_DB_POOL="2", APP_PROCESSES="1")
    holder = database.connect(autocommit=False)
    database.rows("LOCK TABLE rvq.tasks IN ACCESS EXCLUSIVE MODE", on=holder)
    response = server.call("POST", "/v1/tasks", TASK, token=PARTNER)
    response.problem(503, "timeout")
    assert int(response.headers["Retry-After"]) >= 1
    holder.rollback()
    assert database.value("SELECT count(*) FROM rvq.tasks") == 0
    assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201


def test_a_burst_larger_than_the_budget_is_served_whole(
    gunicorn: Callable[..., Gunicorn], database: Database
) -> None:
    server = gunicorn(APP_DB_POOL="4", APP_PROCESSES="1")
    with ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(server.call, "POST", "/v1/tasks", TASK, token=PARTNER) for _ in range(200)]
    assert {call.result().status for call in calls} == {201}
    assert len(backends(database)) == 4
