"""Whatever is sent, the response is 2xx, or 4xx with a problem in its form: never a 500."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.app.documents import DOCUMENTS
from tests.app.rig import TOKENS, Caller
from tests.app.web.test_bodies import AUDIENCE, BODIES

MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = [
    "sub_tasks", "payload", "max_attempts", "webhook_url", "metadata", "queue", "not_before", "completion",
    "policy", "count", "deadline_seconds", "headers", "body", "worker_id", "limit", "lease_seconds", "queues",
    "results", "leases", "id", "lease_token", "status", "result", "error", "message", "retryable",
    "retry_after_seconds", "paused", "host", "since", "dry_run", "confirm",
]  # fmt: skip
STRINGS = st.text(max_size=20) | st.sampled_from(
    [
        "all",
        "at_least",
        "succeeded",
        "failed",
        "sub_7fff000000000001",
        "f" * 32,
        "2026-01-01T00:00:00Z",
        "a\0",
    ]
)
VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STRINGS
)
TREES = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | STRINGS, inner, max_size=5)
    ),
    max_leaves=20,
)
every_body = pytest.mark.parametrize("path", BODIES)


def check(api: Caller, path: str, body: bytes, **more: Any) -> None:
    response = api.call("POST", path, body, token=TOKENS[AUDIENCE[path]], **more)
    if response.status >= 300:
        assert 400 <= response.status < 500, (response.status, response.body)
        response.problem(response.status)


@every_body
@given(body=st.binary(max_size=200))
@MANY
def test_any_bytes(api: Caller, path: str, body: bytes) -> None:
    check(api, path, body)


@every_body
@given(body=DOCUMENTS)
@MANY
def test_any_json(api: Caller, path: str, body: str) -> None:
    check(api, path, body.encode())


@every_body
@given(tree=st.dictionaries(st.sampled_from(NAMES), TREES, max_size=6))
@MANY
def test_the_right_names_with_any_values(api: Caller, path: str, tree: Any) -> None:
    check(api, path, json.dumps({**tree, "worker_id": tree.get("worker_id", "w")}).encode())


@every_body
@given(data=st.data())
@MANY
def test_a_good_body_with_one_thing_changed(api: Caller, path: str, data: st.DataObject) -> None:
    body = json.loads(BODIES[path])
    if path == "/v1/tasks":
        body.update(queue="q", metadata={}, max_attempts=3, completion={"policy": "all"})
    if "results" in body:
        body["results"] = [{"id": "sub_7fff000000000001", "lease_token": "f" * 32, "status": "succeeded"}]
    name = data.draw(st.sampled_from(sorted(body)))
    body[name] = data.draw(TREES)
    check(api, path, json.dumps(body).encode())


@every_body
@given(data=st.data())
@MANY
def test_a_good_body_with_bytes_changed(api: Caller, path: str, data: st.DataObject) -> None:
    body = bytearray(BODIES[path])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    check(api, path, bytes(body))


@given(
    path=st.sampled_from(["/v1/tasks", "/v1/events", "/v1/tasks/task_7fff000000000000/sub_tasks"]),
    query=st.dictionaries(
        st.sampled_from(["status", "limit", "cursor", "host", "since", "x"]), STRINGS | DOCUMENTS, max_size=4
    ),
)
@MANY
def test_any_query(api: Caller, path: str, query: dict[str, str]) -> None:
    client = api.app.test_client()
    for whose, where in (("partner", path), ("admin", "/v1/admin/deliveries")):
        response = client.get(where, query_string=query, headers={"Authorization": f"Bearer {TOKENS[whose]}"})
        assert response.status_code in (200, 404, 422), response.data


@given(path=st.text(max_size=40), method=st.sampled_from(["GET", "POST", "PUT", "OPTIONS", "HEAD"]))
@MANY
def test_any_path(api: Caller, path: str, method: str) -> None:
    client = api.app.test_client()
    for prefix in ("/", "/v1/tasks/", "/v1/admin/queues/", "/v1/admin/deliveries/"):
        response = client.open(
            prefix + path.replace("?", "").replace("#", ""),
            method=method,
            base_url="http://rvq",  # else what stands behind "//" is taken for a host
            headers={"Authorization": f"Bearer {TOKENS['admin' if 'admin' in prefix else 'partner']}"},
        )
        assert response.status_code < 500


@given(
    headers=st.dictionaries(
        st.sampled_from(
            ["CONTENT_TYPE", "HTTP_AUTHORIZATION", "HTTP_IDEMPOTENCY_KEY", "HTTP_X_REQUEST_ID",
             "CONTENT_LENGTH", "HTTP_CONTENT_ENCODING", "HTTP_TRANSFER_ENCODING", "HTTP_ACCEPT", "HTTP_HOST"]
        ),
        st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=30),
        max_size=4,
    )
)  # fmt: skip
@MANY
def test_any_headers(api: Caller, headers: dict[str, str]) -> None:
    client = api.app.test_client()
    response = client.post(
        "/v1/tasks",
        data=BODIES["/v1/tasks"],
        content_type="application/json",
        headers={"Authorization": f"Bearer {TOKENS['partner']}"},
        environ_overrides=headers,
    )
    assert response.status_code < 500
