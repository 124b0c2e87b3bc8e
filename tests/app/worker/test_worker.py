"""The worker API: claims, reports with an outcome each, heartbeats, releases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from app.worker.schemas import Claimed, Completed, Heartbeats, Releases
from tests.app.rig import Caller, failed, lease_of, succeeded
from tests.support.database import Database

NOT_LIMITS = [-1, 0, 1.5, 1.0, True, "2", None, 1_000_000_000, 10**30, [], 1001]
NOT_NAMES: list[object] = [None, 1, True, "", "a\0b", "a\nb", "a" * 201, [], {}]
VERBS: dict[str, dict[str, object]] = {
    "claim": {},
    "complete": {"results": [None]},
    "heartbeat": {"leases": [None]},
    "release": {"leases": [None]},
}
LISTS = {"complete": "results", "heartbeat": "leases", "release": "leases"}
OF_NOTHING = {"complete": "invalid", "heartbeat": "unknown", "release": "unknown"}
NEVER_GIVEN = "f" * 32


def test_a_claim_hands_out_what_the_contract_says(api: Caller) -> None:
    task = api.create("a", "b", queue="text", max_attempts=3)
    response = api.worker("claim", {"worker_id": "w", "limit": 2, "queues": ["text"], "lease_seconds": 30})
    first, second = msgspec.convert(response.expect(200), Claimed).sub_tasks
    assert (first.task_id, first.index, second.index) == (task["id"], 0, 1)
    assert (first.queue, first.attempt, first.max_attempts, first.payload) == ("text", 1, 3, "a")
    assert first.lease_token != second.lease_token
    created, expires = map(datetime.fromisoformat, (task["created_at"], first.lease_expires_at))
    assert 30 <= (expires - created).total_seconds() < 60
    assert response.json["sub_tasks"][0]["lease_expires_at"].endswith("Z")


def test_a_claim_with_nothing_to_do_is_empty(api: Caller) -> None:
    assert api.worker("claim", {"worker_id": "w"}).expect(200) == {"sub_tasks": []}


def test_a_claim_takes_one_from_the_default_queue_unless_told_otherwise(api: Caller) -> None:
    api.create(1, 2)
    api.create(3, queue="other")
    assert [found["payload"] for found in api.worker("claim", {"worker_id": "w"}).json["sub_tasks"]] == [1]


def test_queues_are_claimed_in_order_of_preference(api: Caller) -> None:
    for queue in ("a", "b", "c"):
        api.create(queue, queue=queue)
    assert [found["payload"] for found in api.claim(2, queues=["c", "a"])] == ["c", "a"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_worker_needs_a_plain_name(api: Caller, verb: str, name: object) -> None:
    assert api.worker(verb, {"worker_id": name, **VERBS[verb]}).pointers() == ["/worker_id"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_worker_needs_a_name_at_all(api: Caller, verb: str) -> None:
    assert api.worker(verb, VERBS[verb]).pointers() == ["/worker_id"]


@pytest.mark.parametrize("name", ["w", "host-1:123/4", "Wörker 1", "😀" * 200])
def test_a_name_may_have_any_characters_that_show(api: Caller, name: str) -> None:
    task = api.create(1)
    api.worker("claim", {"worker_id": name}).expect(200)
    assert api.sub_tasks(task["id"])[0]["worker_id"] == name


@pytest.mark.parametrize("limit", NOT_LIMITS)
def test_a_limit_is_a_whole_number_from_1_to_1000(api: Caller, limit: object) -> None:
    api.create(1)
    assert api.worker("claim", {"worker_id": "w", "limit": limit}).pointers() == ["/limit"]
    assert len(api.claim(1000)) == 1


@pytest.mark.parametrize("verb", ["claim", "heartbeat"])
@pytest.mark.parametrize("seconds", [*(value for value in NOT_LIMITS if value != 1001), 3601])
def test_a_lease_is_1_to_3600_whole_seconds(api: Caller, verb: str, seconds: object) -> None:
    body = {"worker_id": "w", "lease_seconds": seconds, **VERBS[verb]}
    assert api.worker(verb, body).pointers() == ["/lease_seconds"]


@pytest.mark.parametrize(
    ("queues", "pointer"),
    [
        ([], "/queues"),
        ("default", "/queues"),
        (None, "/queues"),
        ([1], "/queues/0"),
        (["default", "No"], "/queues/1"),
        ([None], "/queues/0"),
        (["q"] * 65, "/queues"),
    ],
)
def test_queues_are_a_list_of_names(api: Caller, queues: object, pointer: str) -> None:
    assert api.worker("claim", {"worker_id": "w", "queues": queues}).pointers() == [pointer]


@pytest.mark.parametrize("verb", LISTS)
@pytest.mark.parametrize("items", [[], {}, None, "x", 1, [None] * 1001])
def test_a_batch_is_a_list_of_1_to_1000(api: Caller, verb: str, items: object) -> None:
    assert api.worker(verb, {"worker_id": "w", LISTS[verb]: items}).pointers() == [f"/{LISTS[verb]}"]


MALFORMED: list[Any] = [
    None,
    1,
    "x",
    [],
    {},
    {"id": 1, "lease_token": NEVER_GIVEN, "status": "succeeded"},
    {"id": None, "lease_token": NEVER_GIVEN, "status": "succeeded"},
    {"id": "sub_1", "lease_token": None, "status": "succeeded"},
    {"id": "sub_1", "status": "succeeded"},
    {"lease_token": NEVER_GIVEN, "status": "succeeded"},
]


@pytest.mark.parametrize("verb", LISTS)
@pytest.mark.parametrize("item", MALFORMED)
def test_a_malformed_item_costs_only_itself(api: Caller, verb: str, item: object) -> None:
    api.create(1, 2)
    good = [succeeded(claimed) if verb == "complete" else lease_of(claimed) for claimed in api.claim()]
    items = [good[0], item, good[1]]
    outcomes = [
        result["outcome"]
        for result in api.worker(verb, {"worker_id": "w1", LISTS[verb]: items}).expect(200)["results"]
    ]
    word = {"complete": "succeeded", "heartbeat": "extended", "release": "released"}[verb]
    assert outcomes == [word, OF_NOTHING[verb], word]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "done"},
        {"status": None},
        {"status": "failed"},
        {"status": "failed", "error": None},
        {"status": "failed", "error": "no"},
        {"status": "failed", "error": []},
        {"status": "failed", "error": {}},
        {"status": "failed", "error": {"message": None}},
        {"status": "failed", "error": {"message": 1}},
        {"status": "failed", "error": {"message": "x", "retryable": "yes"}},
        {"status": "failed", "error": {"message": "x", "retryable": None}},
        {"status": "failed", "error": {"message": "x", "retry_after_seconds": -1}},
        {"status": "failed", "error": {"message": "x", "retry_after_seconds": "5"}},
        {"status": "failed", "error": {"message": "x", "retry_after_seconds": True}},
        {"status": "failed", "error": {"message": "x", "retry_after_seconds": 1e300}},
        {"status": "failed", "error": {"message": "x" * 1048576}},
        {"status": "failed", "error": {"message": "x"}, "result": 1},
        {"status": "succeeded", "error": {"message": "x"}},
        {"status": "succeeded", "result": "x" * 1048576},
    ],
    ids=lambda change: str(change)[:60],
)
def test_an_invalid_report_is_told_so_and_changes_nothing(api: Caller, change: dict[str, Any]) -> None:
    api.create(1, 2)
    bad, good = api.claim()
    assert api.complete([{**lease_of(bad), **change}, succeeded(good)]) == ["invalid", "succeeded"]
    assert api.complete([succeeded(bad)]) == ["succeeded"]


def test_a_result_may_be_a_mebibyte(api: Caller) -> None:
    task_id = api.create(1)["id"]
    result = "x" * (1048576 - 2)
    assert api.complete([succeeded(api.claim()[0], result)]) == ["succeeded"]
    assert api.sub_tasks(task_id)[0]["result"] == result


@pytest.mark.parametrize("extra", [{"attempt": 1}, {"payload": [1]}, {"error": None}])
def test_other_members_of_a_report_are_not_looked_at(api: Caller, extra: dict[str, Any]) -> None:
    api.create(1)
    assert api.complete([{**succeeded(api.claim()[0]), **extra}]) == ["succeeded"]


def test_a_report_needs_no_result(api: Caller) -> None:
    task_id = api.create(1)["id"]
    assert api.complete([{**lease_of(api.claim()[0]), "status": "succeeded"}]) == ["succeeded"]
    assert api.sub_tasks(task_id)[0]["result"] is None


def test_a_failure_is_retried_until_its_attempts_are_used_up(api: Caller) -> None:
    task_id = api.create(1, max_attempts=2)["id"]
    assert api.complete([failed(api.claim()[0], retry_after_seconds=0)]) == ["retrying"]
    assert api.complete([failed(api.claim()[0])]) == ["failed"]
    sub_task = api.sub_tasks(task_id)[0]
    assert (sub_task["status"], sub_task["attempt"], sub_task["error"]) == ("failed", 2, {"message": "no"})
    assert api.read(task_id)["status"] == "failed"


def test_a_failure_that_is_not_retryable_is_final(api: Caller) -> None:
    task_id = api.create(1)["id"]
    assert api.complete([failed(api.claim()[0], retryable=False, code="E7", more=[1])]) == ["failed"]
    error = {"message": "no", "retryable": False, "code": "E7", "more": [1]}
    assert api.sub_tasks(task_id)[0]["error"] == error


def test_a_failure_waits_as_long_as_it_asks_to(api: Caller) -> None:
    task_id = api.create(1)["id"]
    assert api.complete([failed(api.claim()[0], retry_after_seconds=3600)]) == ["retrying"]
    assert api.sub_tasks(task_id)[0]["status"] == "scheduled"
    assert api.claim() == []


def test_the_same_report_again_is_a_duplicate(api: Caller) -> None:
    api.create(1, 2)
    claimed = api.claim()
    reports = [succeeded(claimed[0], {"a": 1}), failed(claimed[1], retryable=False)]
    assert api.complete(reports) == ["succeeded", "failed"]
    assert api.complete(reports) == ["duplicate", "duplicate"]


def test_a_lease_of_someone_else_is_stale_and_a_strange_id_unknown(api: Caller) -> None:
    api.create(1)
    (claimed,) = api.claim()
    strange = {"id": "sub_7fff000000000001", "lease_token": NEVER_GIVEN}
    for token in (NEVER_GIVEN, "", "x", "ä\0", claimed["lease_token"].upper()):
        if token != claimed["lease_token"]:
            assert api.complete([{**succeeded(claimed), "lease_token": token}]) == ["stale"]
    for name in ("sub_7fff000000000001", "sub_ffffffffffffffff", "sub_1", "", "x" * 9999, "task_0", "ä\0"):
        assert api.complete([{**strange, "id": name, "status": "succeeded"}]) == ["unknown"]
        for verb in ("heartbeat", "release"):
            response = api.worker(verb, {"worker_id": "w", "leases": [{**strange, "id": name}]}).expect(200)
            assert [result["outcome"] for result in response["results"]] == ["unknown"]


def test_results_name_the_items_in_order(api: Caller) -> None:
    api.create(1, 2)
    claimed = api.claim()
    body = {"worker_id": "w1", "results": [succeeded(claimed[1]), None, succeeded(claimed[0])]}
    response = msgspec.convert(api.worker("complete", body).expect(200), Completed)
    assert [result.id for result in response.results] == [claimed[1]["id"], None, claimed[0]["id"]]


def test_a_heartbeat_extends_what_it_names(api: Caller, database: Database) -> None:
    api.create(1, 2)
    first, second = api.claim(lease_seconds=5)
    body = {"worker_id": "w1", "lease_seconds": 3600, "leases": [lease_of(first)]}
    response = msgspec.convert(api.worker("heartbeat", body).expect(200), Heartbeats)
    assert [(result.id, result.outcome) for result in response.results] == [(first["id"], "extended")]
    lengths = database.column(
        "SELECT lease_expires_at > clock_timestamp() + interval '60 s' FROM rvq.open_sub_tasks ORDER BY id"
    )
    assert lengths == [True, False]
    assert second["lease_token"] != first["lease_token"]


def test_a_heartbeat_learns_that_the_task_was_cancelled(api: Caller) -> None:
    task_id = api.create(1)["id"]
    (claimed,) = api.claim()
    api.partner("POST", f"/v1/tasks/{task_id}/cancel").expect(200)
    response = api.worker("heartbeat", {"worker_id": "w1", "leases": [lease_of(claimed)]}).expect(200)
    assert response["results"][0]["outcome"] == "cancelled"
    assert api.complete([succeeded(claimed)]) == ["stale"]


def test_a_release_gives_the_attempt_back(api: Caller) -> None:
    api.create(1)
    (claimed,) = api.claim()
    body = {"worker_id": "w1", "leases": [lease_of(claimed)]}
    response = msgspec.convert(api.worker("release", body).expect(200), Releases)
    assert [result.outcome for result in response.results] == ["released"]
    assert api.worker("release", body).json["results"][0]["outcome"] == "stale"
    assert api.claim()[0]["attempt"] == 1


def test_what_a_claim_returned_may_be_sent_as_the_lease(api: Caller) -> None:
    api.create(1)
    claimed = api.claim()
    response = api.worker("heartbeat", {"worker_id": "w1", "leases": claimed}).expect(200)
    assert response["results"][0]["outcome"] == "extended"


def test_a_thousand_reports_go_in_one_request(api: Caller) -> None:
    task_id = api.create(*range(1000))["id"]
    assert set(api.complete(succeeded(claimed) for claimed in api.claim(1000))) == {"succeeded"}
    assert api.read(task_id)["status"] == "succeeded"
