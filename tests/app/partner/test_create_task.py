"""POST /v1/tasks: what is accepted, what is refused, and where the refusal points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from app.web.schemas import Task
from tests.app.rig import HOOK, Caller, make_caller
from tests.support.database import Database

ONE = [{"payload": 1}]


def test_a_created_task_is_answered_as_a_read_gives_it(api: Caller) -> None:
    body = {"sub_tasks": ONE, "metadata": {"order": 7}, "webhook_url": HOOK, "queue": "text"}
    response = api.partner("POST", "/v1/tasks", body)
    task = response.expect(201)
    assert response.headers["Location"] == f"/v1/tasks/{task['id']}"
    msgspec.convert(task, Task)
    read = api.partner("GET", response.headers["Location"])
    assert read.body == response.body


@pytest.mark.parametrize(
    ("completion", "shown"),
    [
        (None, {"policy": "all"}),
        ({}, {"policy": "all"}),
        ({"policy": "all"}, {"policy": "all"}),
        ({"policy": "fail_fast"}, {"policy": "fail_fast"}),
        ({"policy": "at_least", "count": 2}, {"policy": "at_least", "count": 2}),
        ({"deadline_seconds": 60}, {"policy": "all", "deadline_seconds": 60}),
        ({"policy": "fail_fast", "deadline_seconds": 0.5}, {"policy": "fail_fast", "deadline_seconds": 0.5}),
    ],
)
def test_every_completion_policy_comes_back(api: Caller, completion: Any, shown: Any) -> None:
    task = api.create(1, 2, completion=completion)
    assert task["completion"] == shown
    assert api.read(task["id"]) == task


def test_a_task_with_a_not_before_ahead_is_scheduled(api: Caller) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    task = api.create(1, 2, not_before=later)
    assert (task["counts"]["scheduled"], task["counts"]["queued"]) == (2, 0)
    assert api.read(task["id"]) == task
    assert api.claim() == []


def test_a_task_with_a_not_before_in_the_past_is_queued(api: Caller) -> None:
    task = api.create(1, not_before="2024-02-29T12:00:00+02:00")
    assert task["counts"]["queued"] == 1
    assert len(api.claim()) == 1


def test_max_attempts_of_a_sub_task_goes_before_that_of_the_task(api: Caller) -> None:
    sub_tasks = [{"payload": 1}, {"payload": 2, "max_attempts": 9}]
    task = api.partner("POST", "/v1/tasks", {"sub_tasks": sub_tasks, "max_attempts": 2}).expect(201)
    assert [found["max_attempts"] for found in api.sub_tasks(task["id"])] == [2, 9]
    assert [found["max_attempts"] for found in api.sub_tasks(api.create(1)["id"])] == [5]


@pytest.mark.parametrize("field", ["webhook_url", "metadata", "not_before", "completion"])
def test_null_stands_for_an_optional_field_that_is_not_given(api: Caller, field: str) -> None:
    task = api.create(1, **{field: None})
    assert (task["webhook_url"], task["metadata"]) == (None, None)


@pytest.mark.parametrize(
    "queue", ["a", "0", "default", "a.b-c_d", "a" * 63], ids=["short", "digit", "word", "marks", "longest"]
)
def test_a_queue_may_have_any_name_of_its_form(api: Caller, queue: str) -> None:
    assert api.create(1, queue=queue)["queue"] == queue
    assert api.claim(queues=[queue])[0]["queue"] == queue


@pytest.mark.parametrize("body", [b"{}", b'{"sub_tasks":[]}'])
def test_a_task_needs_sub_tasks(api: Caller, body: bytes) -> None:
    assert api.partner("POST", "/v1/tasks", body).pointers() == ["/sub_tasks"]


COUNTS = [-1, 0, 1.5, 1.0, True, "2", None, 1_000_000_000, 10**30, [], {}]
REFUSED: list[tuple[str, Any, str]] = [
    *(("max_attempts", value, "/max_attempts") for value in [*COUNTS, 101]),
    *(("completion", {"policy": "at_least", "count": value}, "/completion/count") for value in COUNTS),
    *(
        ("completion", {"deadline_seconds": value}, "/completion/deadline_seconds")
        for value in [-1, 0, True, "2", None, 10**12]
    ),
    ("completion", {"policy": "at_least"}, "/completion/count"),
    ("completion", {"policy": "at_least", "count": 2}, "/completion/count"),
    ("completion", {"policy": "all", "count": 1}, "/completion/count"),
    ("completion", {"policy": "most"}, "/completion/policy"),
    ("completion", {"policy": None}, "/completion/policy"),
    ("completion", {"polcy": "all"}, "/completion/polcy"),
    ("completion", "all", "/completion"),
    ("completion", [], "/completion"),
    *(("queue", name, "/queue") for name in ["", "A", "-a", ".a", "a b", "a/b", "ä", "a\n", "a\0", "a" * 64]),
    *(("queue", value, "/queue") for value in [None, 1, ["a"]]),
    *(("metadata", value, "/metadata") for value in ["x", 1, True, [], [{}], "{}"]),
    ("metadata", {"big": "x" * 16384}, "/metadata"),
    *(
        ("not_before", value, "/not_before")
        for value in [
            "soon",
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            1700000000,
            True,
        ]
    ),
    *(("webhook_url", value, "/webhook_url") for value in [1, True, [], {}]),
    ("sub_tasks", {}, "/sub_tasks"),
    ("sub_tasks", None, "/sub_tasks"),
    ("sub_tasks", "x", "/sub_tasks"),
    ("sub_tasks", [1], "/sub_tasks/0"),
    ("sub_tasks", [None], "/sub_tasks/0"),
    ("sub_tasks", [[]], "/sub_tasks/0"),
    ("sub_tasks", [{}], "/sub_tasks/0/payload"),
    ("sub_tasks", [{"payload": 1}, {"paylod": 1}], "/sub_tasks/1/paylod"),
    *(
        ("sub_tasks", [{"payload": 1, "max_attempts": value}], "/sub_tasks/0/max_attempts")
        for value in [*COUNTS, 101]
    ),
    ("colour", "red", "/colour"),
    ("a/b~c", 1, "/a~1b~0c"),
]


@pytest.mark.parametrize(("field", "value", "pointer"), REFUSED)
def test_what_is_not_valid_is_refused_with_a_pointer_to_it(
    api: Caller, field: str, value: object, pointer: str
) -> None:
    body = {"sub_tasks": ONE, field: value}
    assert api.partner("POST", "/v1/tasks", body).pointers() == [pointer]
    assert api.partner("GET", "/v1/tasks").expect(200)["items"] == []


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"true"])
def test_a_body_that_is_no_object_is_refused(api: Caller, body: bytes) -> None:
    assert api.partner("POST", "/v1/tasks", body).pointers() == [""]


def test_several_faults_are_listed_at_once(api: Caller) -> None:
    body = {
        "sub_tasks": [{"payload": "x" * 262144}],
        "metadata": [],
        "completion": {"policy": "at_least"},
        "webhook_url": "https://elsewhere.example/",
    }
    pointers = api.partner("POST", "/v1/tasks", body).pointers()
    assert pointers == ["/sub_tasks/0/payload", "/metadata", "/completion/count", "/webhook_url"]


def test_the_largest_payload_and_metadata_are_taken_and_one_byte_more_is_not(api: Caller) -> None:
    payload, metadata = "x" * (262144 - 2), {"k": "x" * (16384 - 9)}
    task = api.create(payload, metadata=metadata)
    assert api.claim()[0]["payload"] == payload
    assert api.read(task["id"])["metadata"] == metadata
    larger = {"sub_tasks": [{"payload": payload + "x"}], "metadata": {"k": metadata["k"] + "x"}}
    assert api.partner("POST", "/v1/tasks", larger).pointers() == ["/sub_tasks/0/payload", "/metadata"]


def test_ten_thousand_sub_tasks_are_taken_and_one_more_is_not(api: Caller) -> None:
    task = api.create(*range(10_000))
    assert task["counts"]["total"] == 10_000
    assert [found["payload"] for found in api.sub_tasks(task["id"], "?limit=1000")] == list(range(1000))
    body = {"sub_tasks": [{"payload": 1}] * 10_001}
    assert api.partner("POST", "/v1/tasks", body).pointers() == ["/sub_tasks"]


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example/",
        "http://127.0.0.1:9001/",
        "http://hooks.example/",
        "https://user:password@hooks.example/",
        "https://hooks.example/#part",
        "https://HOOKS.example/",
        "http://127.0.0.1:9000\\@hooks.example/",
        "https://höoks.example/",
        "file:///etc/passwd",
        "",
        "hooks.example",
        "https://hooks.example/\0",
    ],
)
def test_an_address_that_is_not_listed_or_not_spelt_plainly_is_refused(api: Caller, url: str) -> None:
    body = {"sub_tasks": ONE, "webhook_url": url}
    assert api.partner("POST", "/v1/tasks", body).pointers() == ["/webhook_url"]


@pytest.mark.parametrize("missing", ["APP_WEBHOOK_SECRET", "APP_WEBHOOK_ALLOWED_HOSTS"])
def test_without_a_secret_or_a_list_every_webhook_is_refused(
    database: Database, pool: Any, missing: str
) -> None:
    api = make_caller(database.url, pool, **{missing: None})
    response = api.partner("POST", "/v1/tasks", {"sub_tasks": ONE, "webhook_url": HOOK})
    assert response.pointers() == ["/webhook_url"]
    assert "refused" in response.json["errors"][0]["detail"]
    api.create(1)


def test_a_missing_partition_is_made_and_the_task_created(api: Caller, database: Database) -> None:
    days = database.column(
        "SELECT DISTINCT substring(relname FROM '[0-9]+$') FROM pg_class WHERE relname ~ '^tasks_[0-9]+$'"
    )
    today = min(map(int, days))
    for table in ("tasks", "sub_tasks", "outcomes", "events", "delivery_attempts"):
        database.rows(f"DROP TABLE rvq.{table}_{today}")
    assert api.create(1)["counts"]["total"] == 1
