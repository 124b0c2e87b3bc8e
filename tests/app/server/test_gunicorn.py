"""A real Gunicorn with only the contract's settings, its connections, its start, stop and reload."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import psycopg2
import pytest

from app.server import hooks
from tests.app.process import Gunicorn
from tests.app.rig import ADMIN, PARTNER, SECRET, WORKER
from tests.support.concurrency import background, wait_until
from tests.support.database import Database

Start = Callable[..., Gunicorn]
TASK = b'{"sub_tasks":[{"payload":1}]}'
CONNECTIONS = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'rvq-api' AND datname = current_database()"
)


def backends(database: Database) -> set[int]:
    return set(database.column(CONNECTIONS))


@pytest.mark.parametrize("processes", [1, 4, 32])
def test_exactly_32_connections_are_open_before_the_first_request(
    gunicorn: Start, database: Database, processes: int
) -> None:
    server = gunicorn(wait=False, APP_PROCESSES=str(processes))
    wait_until(lambda: len(backends(database)) == 32, "32 connections are open", 60)
    server.wait_ready()
    for _ in range(40):
        assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201
    assert len(backends(database)) == 32
    assert len(server.children()) == processes


def test_each_process_has_a_core_of_its_own_and_runs_under_the_batch_policy(gunicorn: Start) -> None:
    children = gunicorn(APP_PROCESSES="2").children()
    kept = [os.sched_getaffinity(pid) for pid in children]
    assert [len(cores) for cores in kept] == [1, 1]
    assert len(set.union(*kept)) == min(2, len(os.sched_getaffinity(0)))
    assert [os.sched_getscheduler(pid) for pid in children] == [os.SCHED_BATCH] * 2


def test_the_budget_is_a_setting(gunicorn: Start, database: Database) -> None:
    gunicorn(APP_DB_POOL="6", APP_PROCESSES="3")
    wait_until(lambda: len(backends(database)) == 6, "6 connections are open")


def listens(path: Path) -> bool:
    """Whether somebody takes connections: the file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def test_it_listens_on_a_unix_socket_too(gunicorn: Start, tmp_path: Path) -> None:
    path = tmp_path / "rvq.sock"
    gunicorn(wait=False, APP_BIND=f"unix:{path}", APP_DB_POOL="2", APP_PROCESSES="1")
    wait_until(lambda: listens(path), "it listens", 60)
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: rvq\r\nAuthorization: Bearer {PARTNER}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(TASK)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(path))
        for _ in range(2):
            client.sendall(head.encode() + TASK)
            response = http.client.HTTPResponse(client)
            response.begin()
            assert (response.status, json.loads(response.read())["status"]) == (201, "queued")


def test_it_works_with_only_a_database_and_a_token(gunicorn: Start) -> None:
    nothing = ["APP_WORKER_TOKEN", "APP_ADMIN_TOKEN", "APP_WEBHOOK_SECRET"]
    nothing += ["APP_WEBHOOK_SIGNING_KEY", "APP_WEBHOOK_ALLOWED_HOSTS"]
    server = gunicorn(**dict.fromkeys(nothing))
    assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201
    for path in ("/v1/sub_tasks/claim", "/v1/admin/reset"):
        server.call("POST", path, b"{}", token=WORKER).problem(404, "api_disabled")
    server.call("GET", "/metrics", token=ADMIN).problem(404, "api_disabled")


def test_it_migrates_an_empty_database_before_it_listens(gunicorn: Start, empty_database: str) -> None:
    server = gunicorn(APP_DATABASE_URL=empty_database)
    assert server.call("GET", "/readyz").status == 200
    assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201
    server.stop()


WRONG: list[tuple[dict[str, str | None], list[str]]] = [
    ({"APP_DATABASE_URL": None}, ["APP_DATABASE_URL"]),
    ({"APP_PARTNER_TOKEN": "short"}, ["APP_PARTNER_TOKEN"]),
    ({"APP_WORKER_TOKEN": PARTNER}, ["APP_WORKER_TOKEN"]),
    ({"APP_ADMIN_TOKEN": WORKER}, ["APP_ADMIN_TOKEN"]),
    ({"APP_PROCESSES": "3"}, ["APP_PROCESSES"]),
    ({"APP_WEBHOOK_SECRET": "whsec_AAAA"}, ["APP_WEBHOOK_SECRET"]),
    (
        {"APP_UNHEARD_OF": "1", "APP_DB_POOL": "0", "APP_BIND": "x"},
        ["APP_UNHEARD_OF", "APP_DB_POOL", "APP_BIND"],
    ),
]


@pytest.mark.parametrize(("changes", "names"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_settings_stop_it_with_every_problem_and_no_secret(
    gunicorn: Start, changes: dict[str, str | None], names: list[str]
) -> None:
    server = gunicorn(wait=False, **changes)
    assert server.wait() != 0
    for name in names:
        assert f"- {name}: " in server.log
    for secret in (PARTNER, WORKER, ADMIN, SECRET):
        assert secret not in server.log


@pytest.mark.fast_server  # gthread listens to the end of its stop
def test_a_stop_finishes_the_request_under_way_and_waits_for_no_idle_client(
    gunicorn: Start, database: Database
) -> None:
    server = gunicorn(APP_PROCESSES="1")
    idle = http.client.HTTPConnection("127.0.0.1", server.port)
    idle.request("GET", "/healthz")
    idle.getresponse().read()
    holder = database.connect(autocommit=False)
    database.rows("LOCK TABLE rvq.tasks IN ACCESS EXCLUSIVE MODE", on=holder)
    with background(server.call, "POST", "/v1/tasks", TASK, token=PARTNER) as call:
        wait_until(lambda: blocked(database) == 1, "the request waits for the lock")
        server.signal(signal.SIGTERM)
        wait_until(lambda: refuses(server), "the server no longer listens")
        holder.rollback()
        assert call.result(30).status == 201
    assert server.wait() == 0
    assert backends(database) == set()


def test_a_stop_reaches_processes_that_are_still_starting(gunicorn: Start, database: Database) -> None:
    server = gunicorn(wait=False, APP_PROCESSES="8")
    wait_until(lambda: backends(database), "the first process opens its connections", 60)
    server.signal(signal.SIGTERM)
    # One that missed the signal would be killed only after 30 s.
    assert server.process.wait(25) == 0


def test_a_reload_serves_on_with_new_processes(gunicorn: Start, database: Database) -> None:
    server = gunicorn(APP_PROCESSES="2")
    before = set(server.children())
    server.signal(signal.SIGHUP)

    def renewed() -> bool:
        assert server.call("GET", "/healthz").status == 200
        children = set(server.children())
        return len(children) == 2 and not children & before

    wait_until(renewed, "the processes are new ones", 60)
    wait_until(lambda: len(backends(database)) == 32, "only the new connections are left", 30)
    assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201
    assert "Traceback" not in server.log


def test_a_killed_process_is_replaced_and_its_connections_too(gunicorn: Start, database: Database) -> None:
    server = gunicorn(APP_PROCESSES="2")
    victim = server.children()[0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in server.children() and len(server.children()) == 2, "a new process", 60)
    wait_until(lambda: len(backends(database)) == 32, "the connections are back", 30)
    assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201


def test_killed_backends_cost_no_restart(gunicorn: Start, database: Database) -> None:
    server = gunicorn(APP_DB_POOL="4", APP_PROCESSES="2")
    children = server.children()
    for _ in range(3):
        database.rows(f"SELECT pg_terminate_backend(pid) FROM ({CONNECTIONS}) AS api")
        wait_until(lambda: not backends(database), "the backends are gone")
        statuses = [server.call("POST", "/v1/tasks", TASK, token=PARTNER).status for _ in range(8)]
        assert statuses == [201] * 8
    assert server.children() == children


def blocked(database: Database) -> int:
    """Return how many of the API's connections wait for a lock."""
    return int(
        database.value(f"SELECT count(*) FROM ({CONNECTIONS} AND wait_event_type = 'Lock') AS waiting")
    )


def refuses(server: Gunicorn) -> bool:
    try:
        server.talk(b"GET /healthz HTTP/1.0\r\n\r\n")
    except OSError:
        return True
    return False


def metrics_folder(server: Gunicorn) -> Path:
    """Return the folder where its processes keep their values: they hold it open."""
    held = Path(f"/proc/{server.children()[0]}/fd").iterdir()
    (folder,) = {path for path in map(Path.resolve, held) if path.name.startswith("rvq-metrics-")}
    return folder


def test_neither_a_stop_nor_a_kill_leaves_metrics_behind_for_long(gunicorn: Start) -> None:
    killed = gunicorn(APP_DB_POOL="2", APP_PROCESSES="1")
    children, left = killed.children(), metrics_folder(killed)
    killed.signal(signal.SIGKILL)
    killed.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "its children end too")
    stopped = gunicorn(APP_DB_POOL="2", APP_PROCESSES="1")
    own = metrics_folder(stopped)
    assert own.exists()
    stopped.stop()
    assert [left.exists(), own.exists()] == [False, False]


def test_the_log_is_json_and_says_what_happened(gunicorn: Start) -> None:
    server = gunicorn()
    server.stop()
    entries = [json.loads(line) for line in server.log.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(entry) for entry in entries)
    assert any("Listening at" in entry["message"] for entry in entries)


def test_two_instances_start_side_by_side_on_an_empty_database(gunicorn: Start, empty_database: str) -> None:
    servers = [gunicorn(wait=False, APP_DATABASE_URL=empty_database, APP_DB_POOL="4") for _ in range(2)]
    for server in servers:
        server.wait_ready()
        assert server.call("GET", "/readyz").status == 200
        server.stop()
    with psycopg2.connect(empty_database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM rvq.schema_migrations")


@pytest.mark.parametrize(
    ("has_parser", "expected"),
    [(True, "app.server.worker.Worker"), (False, "gthread")],
    ids=["with", "without"],
)
def test_the_fast_worker_serves_where_its_parser_is_installed(
    monkeypatch: pytest.MonkeyPatch, has_parser: bool, expected: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object() if has_parser else None)
    assert hooks.worker_class() == expected
