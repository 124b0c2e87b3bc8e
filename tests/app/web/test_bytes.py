"""What a partner sent and what a worker returned comes back byte for byte, everywhere it comes back."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings

from tests.app.documents import DOCUMENTS, OBJECTS
from tests.app.rig import Caller
from tests.support.database import Database

MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = r'{"b":1,"a":1.10,"a":1e2,"n":9007199254740993,"s":"\u00e4\ud800\/\u0000 ä","e":1E999}'


def claim(api: Caller) -> tuple[bytes, str, str]:
    """Claim a sub_task; return the response's bytes, and the id and the token in them."""
    response = api.worker("claim", {"worker_id": "w", "limit": 10})
    claimed = response.expect(200)["sub_tasks"][0]
    return response.body, claimed["id"], claimed["lease_token"]


@given(DOCUMENTS)
@example(ODD)
@example("[" * 61 + "]" * 61)
@MANY
def test_a_payload_is_handed_to_the_worker_and_listed_as_it_was_sent(api: Caller, payload: str) -> None:
    body = f'{{"sub_tasks":[{{"payload": {payload} }},{{"payload":0}}]}}'.encode()
    task_id = api.partner("POST", "/v1/tasks", body).expect(201)["id"]
    sent = f'"payload":{payload},'.encode()
    assert sent in api.worker("claim", {"worker_id": "w", "limit": 2}).body
    assert sent in api.partner("GET", f"/v1/tasks/{task_id}/sub_tasks").body
    api.partner("POST", f"/v1/tasks/{task_id}/cancel").expect(200)


@given(OBJECTS)
@example(ODD)
@MANY
def test_metadata_comes_back_as_it_was_sent(api: Caller, database: Database, metadata: str) -> None:
    body = f'{{"metadata":\n{metadata}\n,"sub_tasks":[{{"payload":1}}]}}'.encode()
    created = api.partner("POST", "/v1/tasks", body)
    path = created.headers["Location"]
    sent = f'"metadata":{metadata},'.encode()
    responses = [created, api.partner("GET", path), api.partner("GET", "/v1/tasks?limit=1")]
    responses.append(api.partner("POST", f"{path}/cancel"))
    assert [sent in response.body for response in responses] == [True] * 4
    bodies = database.column("SELECT body FROM rvq.events ORDER BY xid DESC, id DESC LIMIT 1")
    assert sent.decode() in bodies[0]


@given(DOCUMENTS)
@example(ODD)
@MANY
def test_a_result_is_listed_as_it_was_sent(api: Caller, result: str) -> None:
    task_id = api.create(1)["id"]
    _, name, token = claim(api)
    report = f'{{"id":"{name}","lease_token":"{token}","status":"succeeded","result":{result}}}'
    body = f'{{"worker_id":"w","results":[null,{report}]}}'.encode()
    outcomes = api.worker("complete", body).expect(200)["results"]
    assert [found["outcome"] for found in outcomes] == ["invalid", "succeeded"]
    assert f'"result":{result},'.encode() in api.partner("GET", f"/v1/tasks/{task_id}/sub_tasks").body


@given(OBJECTS)
@example(ODD)
@MANY
def test_an_error_is_listed_as_it_was_sent(api: Caller, more: str) -> None:
    error = '{"message":"\\ud800\\u0000no", "retryable" :false,"more":' + more + "}"
    task_id = api.create(1)["id"]
    _, name, token = claim(api)
    report = f'{{"id":"{name}","lease_token":"{token}","status":"failed","error":{error}}}'
    outcomes = api.worker("complete", f'{{"worker_id":"w","results":[{report}]}}'.encode()).expect(200)
    assert outcomes["results"][0]["outcome"] == "failed"
    assert f'"error":{error},'.encode() in api.partner("GET", f"/v1/tasks/{task_id}/sub_tasks").body


def test_a_result_with_a_lone_surrogate_costs_the_other_reports_nothing(api: Caller) -> None:
    task_id = api.create(1, 2)["id"]
    reports = [
        f'{{"id":"{c["id"]}","lease_token":"{c["lease_token"]}","status":"succeeded","result":{result}}}'
        for c, result in zip(api.claim(), (r'"\ud800"', r'"\\ud800 \udfff\ud83d\ude00"'), strict=True)
    ]
    body = f'{{"worker_id":"w","results":[{",".join(reports)}]}}'.encode()
    assert {found["outcome"] for found in api.worker("complete", body).expect(200)["results"]} == {
        "succeeded"
    }
    listed = api.partner("GET", f"/v1/tasks/{task_id}/sub_tasks").body
    assert rb'"result":"\ud800",' in listed
    assert rb'"result":"\\ud800 \udfff\ud83d\ude00",' in listed
