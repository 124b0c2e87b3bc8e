"""What a request's body may be, before anybody looks at what it says: on every route that takes one."""

from __future__ import annotations

import io
from typing import Any

import pytest

from app.audiences import TABLE
from tests.app.rig import TOKENS, Caller

# (path, token, a body that is fine)
BODIES: dict[str, bytes] = {
    "/v1/tasks": b'{"sub_tasks":[{"payload":1}]}',
    "/v1/webhooks/verify": b'{"headers":{},"body":""}',
    "/v1/sub_tasks/claim": b'{"worker_id":"w"}',
    "/v1/sub_tasks/complete": b'{"worker_id":"w","results":[null]}',
    "/v1/sub_tasks/heartbeat": b'{"worker_id":"w","leases":[null]}',
    "/v1/sub_tasks/release": b'{"worker_id":"w","leases":[null]}',
    "/v1/admin/queues/default": b'{"paused":false}',
    "/v1/admin/deliveries/redeliver": b'{"dry_run":true}',
    "/v1/admin/reset": b'{"confirm":"reset"}',
}
AUDIENCE = {route.path.replace("<queue>", "default"): name for name, routes in TABLE for route in routes}
every_body = pytest.mark.parametrize("path", BODIES)
LIMIT = 16 * 1024 * 1024


def post(api: Caller, path: str, body: bytes, **more: Any) -> Any:
    return api.call("POST", path, body, token=TOKENS[AUDIENCE[path]], **more)


def test_every_route_with_a_body_is_here() -> None:
    with_body = [route.path for _, routes in TABLE for route in routes if route.body is not None]
    assert {path.replace("<queue>", "default") for path in with_body} == set(BODIES)


@every_body
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        'Application/JSON;charset="UTF-8"',
        "application/json ; profile=x",
    ],
)
def test_json_is_taken_with_its_parameters(api: Caller, path: str, content_type: str) -> None:
    assert post(api, path, BODIES[path], content_type=content_type).status in (200, 201)


@every_body
@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/jsonx",
        "application/json; charset=utf-16",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        ";",
    ],
)
def test_anything_but_json_is_415(api: Caller, path: str, content_type: str | None) -> None:
    post(api, path, BODIES[path], content_type=content_type).problem(415, "unsupported_media_type")


@every_body
def test_a_compressed_body_is_415(api: Caller, path: str) -> None:
    response = post(api, path, BODIES[path], headers={"Content-Encoding": "gzip"})
    response.problem(415, "unsupported_media_type")


MALFORMED = [
    b"",
    b" ",
    b"{",
    b'{"a"',
    b'{"a":1,}',
    b"{'a':1}",
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":-Infinity}',
    b'{"a":01}',
    b'{"a":"\x00"}',
    b'{"a":"\n"}',
    b'{"a":"\xff"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":1}{"a":1}',
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":' + b"[" * 64 + b"]" * 64 + b"}",
    b"[" * 20000,
    b"[" * 20000 + b"]" * 20000,
    b'{"a":' * 20000,
    '{"a":1}'.encode("utf-16"),
    b"\x00",
    b'{"a":"\\x"}',
    b'{"a":"\\u12"}',
]


@every_body
@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: repr(body[:12]))
def test_what_is_not_json_is_400(api: Caller, path: str, body: bytes) -> None:
    post(api, path, body).problem(400, "malformed_body")


@every_body
def test_every_cut_of_a_body_is_400(api: Caller, path: str) -> None:
    for length in range(len(BODIES[path])):
        post(api, path, BODIES[path][:length]).problem(400, "malformed_body")


@every_body
@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'""', b"[[[]]]"])
def test_json_that_is_no_object_is_422(api: Caller, path: str, body: bytes) -> None:
    assert post(api, path, body).pointers() == [""]


@every_body
def test_an_unknown_member_is_422(api: Caller, path: str) -> None:
    assert post(api, path, b'{"unheard_of":1,' + BODIES[path][1:]).pointers() == ["/unheard_of"]


@every_body
def test_a_body_of_a_declared_length_over_the_limit_is_413(api: Caller, path: str) -> None:
    post(api, path, b" " * (LIMIT + 1)).problem(413, "body_too_large")


@every_body
def test_the_largest_body_is_read(api: Caller, path: str) -> None:
    body = BODIES[path]
    assert post(api, path, body + b" " * (LIMIT - len(body))).status in (200, 201)


@every_body
def test_a_body_shorter_than_its_declared_length_is_400(api: Caller, path: str) -> None:
    client = api.app.test_client()
    response = client.post(
        path,
        headers={"Authorization": f"Bearer {TOKENS[AUDIENCE[path]]}"},
        content_type="application/json",
        environ_overrides={"wsgi.input": io.BytesIO(BODIES[path]), "CONTENT_LENGTH": "1000"},
    )
    assert (response.status_code, response.get_json()["code"]) == (400, "malformed_body")


@pytest.mark.parametrize("nested", [61, 62])
def test_a_payload_may_nest_as_deep_as_the_whole_body_may(api: Caller, nested: int) -> None:
    payload = b"[" * nested + b"]" * nested
    response = post(api, "/v1/tasks", b'{"sub_tasks":[{"payload":' + payload + b"}]}")
    assert response.status == (201 if nested == 61 else 400)


def test_brackets_inside_of_strings_do_not_nest(api: Caller) -> None:
    payload = '[{"\\"' + "[" * 200 + '":"' + "{" * 200 + '\\\\"}]'
    body = b'{"sub_tasks":[{"payload":' + payload.encode() + b"}]}"
    post(api, "/v1/tasks", body).expect(201)
    assert payload.encode() in api.worker("claim", {"worker_id": "w"}).body
