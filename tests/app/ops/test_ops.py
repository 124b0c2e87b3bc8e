"""Health, readiness, metrics, and the API's description."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app import openapi
from app.audiences import TABLE
from app.db import Pool
from app.ops import store as ops_store
from tests.app.process import Gunicorn
from tests.app.rig import ADMIN, PARTNER, TOKENS, Caller, make_caller
from tests.support.database import Database


def away(**changes: str | None) -> Caller:
    """Return the API over a database that does not answer."""
    url = "postgresql://rvq@127.0.0.1:1/rvq"
    return make_caller(url, Pool(url, 1, "rvq-api-test"), **changes)


def test_alive_and_ready(api: Caller, database: Database) -> None:
    database.rows("SELECT rvq.check_admission()")  # as by a dispatcher a moment ago
    assert api.call("GET", "/healthz").expect(200) == {"status": "ok"}
    assert api.call("GET", "/readyz").expect(200) == {"status": "ready"}


def test_without_a_database_it_is_alive_and_not_ready() -> None:
    api = away()
    assert api.call("GET", "/healthz").status == 200
    response = api.call("GET", "/readyz")
    response.problem(503, "database_unavailable")
    assert int(response.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("method", "path", "body", "whose"),
    [
        ("POST", "/v1/tasks", b'{"sub_tasks":[{"payload":1}]}', "partner"),
        ("GET", "/v1/tasks", None, "partner"),
        ("GET", "/v1/stats", None, "partner"),
        ("GET", "/v1/events", None, "partner"),
        ("POST", "/v1/sub_tasks/claim", b'{"worker_id":"w"}', "worker"),
        ("POST", "/v1/admin/reset", b'{"confirm":"reset"}', "admin"),
    ],
)
def test_without_a_database_every_call_is_503_with_a_time_to_come_back(
    method: str, path: str, body: bytes | None, whose: str
) -> None:
    response = away().call(method, path, body, token=TOKENS[whose])
    response.problem(503, "database_unavailable")
    assert int(response.headers["Retry-After"]) >= 1


def test_bad_requests_are_told_so_without_a_database() -> None:
    assert away().partner("POST", "/v1/tasks", b"{}").pointers() == ["/sub_tasks"]


def test_a_schema_that_is_not_current_is_not_ready(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops_store, "schema_is_current", lambda _connection: False)
    api.call("GET", "/readyz").problem(503, "not_ready")


def test_a_read_only_database_is_not_ready_and_takes_no_tasks(database_url: str, api: Caller) -> None:
    separator = "&" if "?" in database_url else "?"
    url = f"{database_url}{separator}options=-c%20default_transaction_read_only%3Don"
    pool = Pool(url, 1, "rvq-api-test")
    read_only = make_caller(database_url, pool)
    read_only.call("GET", "/readyz").problem(503, "not_ready")
    body = {"sub_tasks": [{"payload": 1}]}
    read_only.partner("POST", "/v1/tasks", body).problem(503, "database_unavailable")
    pool.close()


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_metrics_come_from_all_processes(gunicorn: Callable[..., Gunicorn]) -> None:
    server = gunicorn(APP_PROCESSES="4")
    for _ in range(40):
        server.call("POST", "/v1/tasks", b'{"sub_tasks":[{"payload":1}]}', token=PARTNER)
    server.call("GET", "/nowhere/at/all")
    server.call("BREW", "/v1/tasks")
    found = families(server.call("GET", "/metrics", token=ADMIN).body.decode())
    created = found["rvq_created_tasks"].samples
    assert sum(sample.value for sample in created) == 40
    together = [s.value for s in found["rvq_round_calls"].samples if s.labels["call"] == "create"]
    assert sum(together) == 40
    counts = {
        (s.labels["route"], s.labels["method"], s.labels["status"]): s.value
        for s in found["rvq_http_request_seconds"].samples
        if s.name.endswith("_count")
    }
    assert counts["/v1/tasks", "POST", "2xx"] == 40
    assert counts["none", "none", "4xx"] == 2
    waiting = {s.labels["status"]: s.value for s in found["rvq_sub_tasks"].samples}
    assert waiting["queued"] == 40
    assert found["rvq_database_up"].samples[0].value == 1


def test_metrics_have_only_labels_of_fixed_sets(api: Caller) -> None:
    for path in ("/x", "/v1/tasks/task_1", "/v1/tasks/task_2", "/v1/admin/queues/some"):
        api.partner("GET", path)
    text = api.call("GET", "/metrics", token=ADMIN).body.decode()
    routes = {route.path for _, table in TABLE for route in table} | {"none"}
    assert set(re.findall(r'route="([^"]*)"', text)) <= routes


def test_metrics_are_there_when_the_database_is_not() -> None:
    response = away().call("GET", "/metrics", token=ADMIN)
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/plain")
    found = families(response.body.decode())
    assert found["rvq_database_up"].samples[0].value == 0
    assert "rvq_tasks" not in found


def test_the_committed_openapi_document_is_the_one_that_the_code_makes() -> None:
    assert openapi.FILE.read_text() == openapi.text(), "run: python -m app.openapi"


def test_the_openapi_document_is_served_and_describes_every_route(api: Caller) -> None:
    document = api.call("GET", "/openapi.json").expect(200)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = {
        (route.method, re.sub(r"<(\w+)>", r"{\1}", route.path)) for _, table in TABLE for route in table
    }
    assert described == routes
    assert document["openapi"].startswith("3.1")


def test_every_reference_of_the_openapi_document_leads_somewhere(api: Caller) -> None:
    text = api.call("GET", "/openapi.json").body.decode()
    document = json.loads(text)
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert referred <= set(document["components"]["schemas"])
    names = [op["operationId"] for methods in document["paths"].values() for op in methods.values()]
    assert len(names) == len(set(names))


def test_every_operation_says_who_may_call_it(api: Caller) -> None:
    document = api.call("GET", "/openapi.json").expect(200)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            (tag,) = operation["tags"]
            assert operation["security"] == ([] if tag == "everyone" else [{tag: []}]), path
            if tag != "everyone":
                assert {"401", "404", "503"} <= set(operation["responses"])


def test_the_page_loads_nothing_from_anywhere(api: Caller) -> None:
    response = api.call("GET", "/docs")
    html = response.body.decode()
    assert response.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert not re.search(r"<(script|link|img|iframe)|https?://|@import|url\(", html)
    for _, table in TABLE:
        for route in table:
            assert re.sub(r"<(\w+)>", r"{\1}", route.path) in html


def test_the_type_of_every_problem_leads_to_its_place_on_the_page(api: Caller) -> None:
    html = api.call("GET", "/docs").body.decode()
    kind = api.partner("GET", "/v1/tasks/none").problem(404).type
    assert f'id="{kind.partition("#")[2]}"' in html
