"""The real nginx and HAProxy with the configurations in deploy/, in front of real API processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from rvq.embedded.postmaster import process_alive
from tests.app.process import Gunicorn
from tests.app.rig import ADMIN, PARTNER, WORKER, Reply
from tests.deploy.conftest import Start
from tests.deploy.proxies import Proxy, haproxy, needs_haproxy, needs_nginx, nginx
from tests.support.concurrency import wait_until

Run = Callable[..., AbstractContextManager[Proxy]]
TASK = b'{"sub_tasks":[{"payload":1}]}'
LARGE = b'{"sub_tasks":[{"payload":"' + b"x" * (4 << 20) + b'"}]}'
BOTH = [pytest.param(nginx, marks=needs_nginx), pytest.param(haproxy, marks=needs_haproxy)]


@pytest.fixture
def two(start_api: Start) -> tuple[Gunicorn, Gunicorn]:
    return start_api(), start_api()


@pytest.fixture
def behind_nginx(start_api: Start, tmp_path: Path) -> Iterator[Proxy]:
    with nginx(tmp_path, start_api().port) as proxy:
        yield proxy


def kill(api: Gunicorn) -> None:
    """End it as a crash of its host does, and wait until the kernel has closed its connections."""
    processes = [api.process.pid, *api.children()]
    api.process.kill()
    wait_until(lambda: not any(map(process_alive, processes)), "all processes of the API have ended")


def creates(proxy: Proxy, count: int) -> list[int]:
    return [proxy.call("POST", "/v1/tasks", TASK, token=PARTNER).status for _ in range(count)]


@pytest.mark.parametrize("run", BOTH)
def test_a_host_that_is_dead_gets_no_requests(
    run: Run, two: tuple[Gunicorn, Gunicorn], tmp_path: Path
) -> None:
    with run(tmp_path, *(api.port for api in two)) as proxy:
        assert creates(proxy, 20) == [201] * 20
        kill(two[0])
        assert creates(proxy, 200) == [201] * 200


@pytest.mark.parametrize("run", BOTH)
def test_with_every_host_dead_the_answer_is_a_problem_that_says_when_to_ask_again(
    run: Run, two: tuple[Gunicorn, Gunicorn], tmp_path: Path
) -> None:
    with run(tmp_path, *(api.port for api in two)) as proxy:
        for api in two:
            kill(api)
        for _ in range(4):
            reply = proxy.call("POST", "/v1/tasks", TASK, token=PARTNER, headers={"X-Request-Id": "mine"})
            assert reply.problem(reply.status).code in ("bad_gateway", "unavailable")
            assert (reply.status in (502, 503), reply.headers["Retry-After"]) == (True, "1")


REFUSED: dict[int, Callable[[Proxy], Reply]] = {
    401: lambda p: p.call("POST", "/v1/tasks", LARGE, token="wrong-token-0123456789"),
    404: lambda p: p.call("POST", "/v1/nothing", LARGE, token=PARTNER),
    405: lambda p: p.call("PUT", "/v1/tasks", LARGE, token=PARTNER),
    413: lambda p: p.call("POST", "/v1/tasks", LARGE * 4 + LARGE[: 1 << 19], token=PARTNER),
    415: lambda p: p.call("POST", "/v1/tasks", LARGE, token=PARTNER, headers={"Content-Type": "text/plain"}),
}


@pytest.mark.parametrize("run", BOTH)
def test_a_large_body_that_is_refused_gets_the_apis_answer_every_time(
    run: Run, two: tuple[Gunicorn, Gunicorn], tmp_path: Path
) -> None:
    """An API that closes with the body unread makes nginx say 502, which tells a client to send it again."""
    with run(tmp_path, *(api.port for api in two)) as proxy:
        for status, send in REFUSED.items():
            assert [send(proxy).status for _ in range(10)] == [status] * 10
            send(proxy).problem(status)
        assert creates(proxy, 2) == [201, 201]


@needs_nginx
def test_what_nginx_refuses_by_itself_is_a_problem_too(behind_nginx: Proxy) -> None:
    huge = b"x" * (18 << 20)
    for code, reply in {
        "body_too_large": behind_nginx.call("POST", "/v1/tasks", huge, token=PARTNER),
        "not_found": behind_nginx.call("GET", "/"),
        "headers_too_large": behind_nginx.call("GET", "/docs", headers={"X-Long": "x" * 40_000}),
        "malformed_request": behind_nginx.call("GET", "/docs", headers={"Content-Length": "x"}),
        "method_not_allowed": behind_nginx.call("TRACE", "/docs"),
    }.items():
        assert reply.problem(reply.status).code == code
        assert b"nginx" not in reply.body


@needs_nginx
def test_the_clients_request_id_is_the_one_in_every_answer_if_it_is_sane(behind_nginx: Proxy) -> None:
    for path in ("/v1/stats", "/nothing"):
        given = behind_nginx.call("GET", path, headers={"X-Request-Id": "partner-17"})
        assert given.headers["X-Request-Id"] == json.loads(given.body)["request_id"] == "partner-17"
        odd = behind_nginx.call("GET", path, headers={"X-Request-Id": 'a"b'})
        assert odd.headers["X-Request-Id"] == json.loads(odd.body)["request_id"] != 'a"b'


@pytest.mark.parametrize("run", BOTH)
def test_the_whole_life_of_a_task_passes_through(
    run: Run, two: tuple[Gunicorn, Gunicorn], tmp_path: Path
) -> None:
    with run(tmp_path, *(api.port for api in two)) as proxy:
        created = proxy.call("POST", "/v1/tasks", LARGE, token=PARTNER).expect(422)
        assert created["errors"][0]["pointer"] == "/sub_tasks/0/payload"
        task = proxy.call("POST", "/v1/tasks", TASK, token=PARTNER).expect(201)
        claim = proxy.call("POST", "/v1/sub_tasks/claim", b'{"worker_id":"w"}', token=WORKER).expect(200)
        (one,) = claim["sub_tasks"]
        report = {"id": one["id"], "lease_token": one["lease_token"], "status": "succeeded", "result": "€"}
        body = json.dumps({"worker_id": "w", "results": [report]}).encode()
        done = proxy.call("POST", "/v1/sub_tasks/complete", body, token=WORKER).expect(200)
        assert done["results"][0]["outcome"] == "succeeded"
        assert (
            proxy.call("GET", f"/v1/tasks/{task['id']}", token=PARTNER).expect(200)["status"] == "succeeded"
        )
        assert proxy.call("GET", "/v1/admin/audit", token=ADMIN).expect(200)
