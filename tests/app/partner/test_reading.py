"""Reading, listing and cancelling tasks; their sub_tasks; statistics."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from app.partner.schemas import Stats, SubTaskPage, TaskPage
from app.web.schemas import Task
from tests.app.rig import UNKNOWN_TASK, Caller, failed, succeeded

NOT_LIMITS = [
    "-1",
    "0",
    "1.5",
    "true",
    "null",
    "1e9",
    "1001",
    "1000000000",
    "9" * 40,
    "+1",
    " 1",
    "\uff11",
    "x",
]
NOT_CURSORS = [
    "x",
    "AAAA",
    "null",
    "%00",
    "ä",
    "A" * 12,
    "A" * 5000,
    base64.urlsafe_b64encode(b"t" + b"\xff" * 8).decode(),
]
NOT_IDS = [
    UNKNOWN_TASK,
    "task_",
    "task_1",
    "task_ffffffffffffffff",
    "task_0427000000100001",
    "sub_0427000000100001",
    "TASK_0427000000100000",
    "task_042700000010000g",
    "0",
    "-1",
    "null",
    "%00",
    "ä",
    "a" * 3000,
]
LISTINGS = ["/v1/tasks", "/v1/tasks/{}/sub_tasks", "/v1/events", "/v1/tasks/{}/deliveries"]


def pages(api: Caller, path: str, limit: int) -> list[list[Any]]:
    """Follow the cursors of a listing; return the items of all its pages."""
    found: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.partner("GET", f"{path}{'&' if '?' in path else '?'}limit={limit}&cursor={cursor}").expect(
            200
        )
        found.append(page["items"])
        cursor = page["next_cursor"]
    return found


@pytest.mark.parametrize("task_id", NOT_IDS)
def test_an_unknown_or_malformed_id_is_404(api: Caller, task_id: str) -> None:
    for method, below in [
        ("GET", ""),
        ("GET", "/sub_tasks"),
        ("GET", "/deliveries"),
        ("POST", "/cancel"),
        ("POST", "/redeliver"),
    ]:
        api.partner(method, f"/v1/tasks/{task_id}{below}").problem(404, "not_found")


@pytest.mark.parametrize("path", LISTINGS)
@pytest.mark.parametrize("limit", NOT_LIMITS)
def test_a_limit_that_is_no_number_from_1_to_1000_is_422(api: Caller, path: str, limit: str) -> None:
    path = path.format(api.create(1)["id"])
    assert api.partner("GET", f"{path}?limit={limit.replace('+', '%2B')}").pointers() == ["/limit"]


@pytest.mark.parametrize("path", LISTINGS)
@pytest.mark.parametrize("cursor", NOT_CURSORS)
def test_a_cursor_that_was_not_handed_out_is_422(api: Caller, path: str, cursor: str) -> None:
    path = path.format(api.create(1)["id"])
    assert api.partner("GET", f"{path}?cursor={cursor}").pointers() == ["/cursor"]


def test_a_cursor_of_another_listing_is_422(api: Caller) -> None:
    task_id = api.create(1, 2)["id"]
    api.create(1)
    cursor = api.partner("GET", "/v1/tasks?limit=1").json["next_cursor"]
    assert api.partner("GET", f"/v1/tasks/{task_id}/sub_tasks?cursor={cursor}").pointers() == ["/cursor"]


@pytest.mark.parametrize("path", LISTINGS[:2])
@pytest.mark.parametrize("status", ["done", "QUEUED", "null", "queued,failed", "%00"])
def test_an_unknown_status_is_422(api: Caller, path: str, status: str) -> None:
    path = path.format(api.create(1)["id"])
    assert api.partner("GET", f"{path}?status={status}").pointers() == ["/status"]


@pytest.mark.parametrize("path", LISTINGS)
def test_a_parameter_given_twice_is_422(api: Caller, path: str) -> None:
    path = path.format(api.create(1)["id"])
    assert api.partner("GET", f"{path}?limit=1&limit=2").pointers() == ["/limit"]


@pytest.mark.parametrize("path", LISTINGS)
def test_empty_and_unknown_parameters_are_not_looked_at(api: Caller, path: str) -> None:
    path = path.format(api.create(1)["id"])
    plain = api.partner("GET", path)
    assert api.partner("GET", f"{path}?status=&limit=&cursor=&_=1").body == plain.body


def test_a_query_with_too_many_parameters_is_422(api: Caller) -> None:
    query = "&".join(f"p{number}=1" for number in range(200))
    api.partner("GET", f"/v1/tasks?{query}").problem(422)


def test_tasks_are_listed_newest_first_in_pages(api: Caller) -> None:
    created = [api.create(number)["id"] for number in range(5)]
    found = pages(api, "/v1/tasks", 2)
    assert [[task["id"] for task in page] for page in found] == [
        [created[4], created[3]],
        [created[2], created[1]],
        [created[0]],
    ]
    msgspec.convert(api.partner("GET", "/v1/tasks").json, TaskPage)


def test_a_listing_is_stable_under_inserts(api: Caller) -> None:
    created = [api.create(number)["id"] for number in range(4)]
    first = api.partner("GET", "/v1/tasks?limit=2").json
    api.create("later")
    rest = api.partner("GET", f"/v1/tasks?cursor={first['next_cursor']}").json
    assert [task["id"] for task in first["items"] + rest["items"]] == created[::-1]


def test_tasks_are_listed_by_status(api: Caller) -> None:
    done, running, queued = api.create(1)["id"], api.create(1, 2)["id"], None
    api.complete([succeeded(api.claim(1)[0])])
    api.claim(1)
    broken = api.create(1, queue="b")["id"]
    api.complete([failed(api.claim(queues=["b"])[0], retryable=False)])
    gone = api.create(1)["id"]
    api.partner("POST", f"/v1/tasks/{gone}/cancel").expect(200)
    queued = api.create(1)["id"]
    expected = {"succeeded": done, "running": running, "failed": broken, "cancelled": gone, "queued": queued}
    for status, task_id in expected.items():
        items = api.partner("GET", f"/v1/tasks?status={status}").expect(200)["items"]
        assert [(task["id"], task["status"]) for task in items] == [(task_id, status)]


def test_sub_tasks_are_listed_in_the_order_given_in_pages(api: Caller) -> None:
    task_id = api.create(*range(250))["id"]
    found = pages(api, f"/v1/tasks/{task_id}/sub_tasks", 120)
    assert [len(page) for page in found] == [120, 120, 10]
    flat = [sub_task for page in found for sub_task in page]
    assert [(sub_task["index"], sub_task["payload"]) for sub_task in flat] == [(n, n) for n in range(250)]
    assert {sub_task["task_id"] for sub_task in flat} == {task_id}
    msgspec.convert(api.partner("GET", f"/v1/tasks/{task_id}/sub_tasks").json, SubTaskPage)


def test_a_page_of_large_payloads_ends_early_and_loses_nothing(api: Caller) -> None:
    payload = "x" * 200_000
    number = 60
    task_ids = [api.create(*[payload] * number)["id"]]
    assert set(api.complete(succeeded(claimed, payload) for claimed in api.claim(number))) == {"succeeded"}
    found = pages(api, f"/v1/tasks/{task_ids[0]}/sub_tasks", 1000)
    assert [len(page) for page in found] == [42, 18]  # of 400 kB each: 16 MiB, and the rest
    assert [sub_task["index"] for page in found for sub_task in page] == list(range(number))


def test_sub_tasks_are_listed_by_status(api: Caller) -> None:
    task_id = api.create(0, 1, 2, 3)["id"]
    first, second, _third = api.claim(3)
    api.complete([succeeded(first, {"r": 1}), failed(second, retry_after_seconds=600)])
    by_status = {
        status: [found["index"] for found in api.sub_tasks(task_id, f"?status={status}")]
        for status in ("scheduled", "queued", "claimed", "succeeded", "failed", "cancelled")
    }
    expected = {
        "scheduled": [1],
        "queued": [3],
        "claimed": [2],
        "succeeded": [0],
        "failed": [],
        "cancelled": [],
    }
    assert by_status == expected


def test_a_task_is_followed_from_queued_to_succeeded(api: Caller) -> None:
    task_id = api.create(1, 2)["id"]
    assert api.read(task_id)["status"] == "queued"
    claimed = api.claim()
    assert (api.read(task_id)["status"], api.read(task_id)["counts"]["claimed"]) == ("running", 2)
    api.complete([succeeded(claimed[0])])
    assert api.read(task_id)["finished_at"] is None
    api.complete([succeeded(claimed[1])])
    task = msgspec.convert(api.read(task_id), Task)
    assert (task.status, task.counts.succeeded) == ("succeeded", 2)
    assert task.finished_at
    assert task.finished_at > task.created_at


def test_cancelling_ends_the_task_once(api: Caller) -> None:
    task_id = api.create(1, 2)["id"]
    (claimed,) = api.claim(1)
    task = api.partner("POST", f"/v1/tasks/{task_id}/cancel").expect(200)
    assert (task["status"], task["counts"]["cancelled"]) == ("cancelled", 2)
    api.partner("POST", f"/v1/tasks/{task_id}/cancel").problem(409, "state_conflict")
    assert api.complete([succeeded(claimed)]) == ["stale"]
    api.partner("POST", f"/v1/tasks/{api.finish(1)}/cancel").problem(409, "state_conflict")


def test_cancelling_needs_no_body_and_minds_none(api: Caller) -> None:
    for body, content_type in ((None, None), (b"{}", "application/json"), (b"not json", "text/plain")):
        task_id = api.create(1)["id"]
        response = api.partner("POST", f"/v1/tasks/{task_id}/cancel", body, content_type=content_type)
        response.expect(200)


def test_statistics_count_by_status(api: Caller) -> None:
    api.finish(1)
    api.create(1, 2, queue="text")
    api.claim(1, queues=["text"])
    stats = msgspec.convert(api.partner("GET", "/v1/stats").expect(200), Stats)
    assert (stats.tasks.running, stats.tasks.succeeded) == (1, 1)
    assert (stats.sub_tasks.queued, stats.sub_tasks.claimed, stats.sub_tasks.succeeded) == (1, 1, 1)
    assert stats.queues["text"].queued == 1
    assert stats.oldest_queued_seconds is not None
