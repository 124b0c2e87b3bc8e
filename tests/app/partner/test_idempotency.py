"""Idempotency-Key: one task for one key, whatever happens in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.partner import store
from tests.app.process import Gunicorn
from tests.app.rig import PARTNER, Caller, Reply
from tests.support.database import Database

BODY = b'{"sub_tasks":[{"payload":1}]}'


def post(api: Caller, key: str, body: bytes = BODY) -> Reply:
    return api.partner("POST", "/v1/tasks", body, headers={"Idempotency-Key": key})


def test_the_same_key_and_bytes_give_the_same_task(api: Caller) -> None:
    first, second = post(api, "order 7"), post(api, "order 7")
    assert (first.status, second.status) == (201, 200)
    assert second.body == first.body
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.headers["Location"] == first.headers["Location"]
    assert "Idempotency-Replayed" not in first.headers
    assert len(api.claim()) == 1


def test_a_replay_shows_the_task_as_it_stands_now(api: Caller) -> None:
    post(api, "k")
    api.claim()
    assert post(api, "k").expect(200)["status"] == "running"


@pytest.mark.parametrize("body", [b'{"sub_tasks":[{"payload":2}]}', BODY + b" "])
def test_the_same_key_with_other_bytes_is_a_conflict(api: Caller, body: bytes) -> None:
    post(api, "k").expect(201)
    post(api, "k", body).problem(409, "idempotency_conflict")
    assert len(api.claim()) == 1


def test_other_keys_and_no_key_make_tasks_of_their_own(api: Caller) -> None:
    responses = [post(api, "a"), post(api, "b"), post(api, "A"), api.partner("POST", "/v1/tasks", BODY)]
    assert len({response.expect(201)["id"] for response in responses}) == 4


@pytest.mark.parametrize("key", [" ", "~", "a" * 255, "'; DROP TABLE", "%s"])
def test_a_key_may_be_any_printable_ascii(api: Caller, key: str) -> None:
    # A field's value has no blanks around it, so a lone blank arrives as an empty one.
    assert post(api, key).status in (201, 422)
    if key.strip():
        assert post(api, key).status == 200


@pytest.mark.parametrize("key", ["", "a" * 256, "ä", "a\tb", "\x7f", "\x00"])
def test_any_other_key_is_refused(api: Caller, key: str) -> None:
    headers = {"HTTP_IDEMPOTENCY_KEY": key}
    client = api.app.test_client()
    response = client.post(
        "/v1/tasks",
        data=BODY,
        content_type="application/json",
        headers={"Authorization": f"Bearer {PARTNER}"},
        environ_overrides=headers,
    )
    assert response.status_code == 422
    assert response.get_json()["errors"][0]["pointer"] == "/Idempotency-Key"


def test_a_key_works_after_its_first_request_was_refused(api: Caller) -> None:
    post(api, "k", b'{"sub_tasks":[]}').problem(422)
    post(api, "k", b"{").problem(400)
    post(api, "k").expect(201)


def test_a_create_that_failed_after_its_commit_is_503_and_its_key_gives_the_task(
    api: Caller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_row: object) -> None:
        raise ValueError("year 10000 is out of range")

    with monkeypatch.context() as patch:
        patch.setattr(store, "Created", unreadable)
        reply = post(api, "k")
    reply.problem(503, "outcome_unknown")
    assert reply.headers["Retry-After"] == "1"
    assert database.value("SELECT count(*) FROM rvq.tasks") == 1
    assert post(api, "k").expect(200)["counts"]["queued"] == 1


def test_twenty_same_requests_at_once_make_one_task(gunicorn: Callable[..., Gunicorn]) -> None:
    server = gunicorn()

    def once(_: int) -> Reply:
        return server.call("POST", "/v1/tasks", BODY, token=PARTNER, headers={"Idempotency-Key": "k"})

    with ThreadPoolExecutor(20) as threads:
        responses = list(threads.map(once, range(20)))
    assert sorted(response.status for response in responses) == [200] * 19 + [201]
    assert len({json.loads(response.body)["id"] for response in responses}) == 1
