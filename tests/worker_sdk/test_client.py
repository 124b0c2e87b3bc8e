"""Requests on a real socket: what is sent, what is refused, what a response means."""

import os
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from tests.worker_sdk.api import TOKEN, Cut, Drop, Hold, Reply, ScriptedAPI
from tests.worker_sdk.certificates import Certificate, self_signed
from worker_sdk import Answer, APIError, Denied, Raw, Rejected, Settings, Unavailable
from worker_sdk._client import MAX_RETRY_AFTER, Client, retry_after_seconds
from worker_sdk._transport import HTTPTransport


def client_of(api: ScriptedAPI, ca_bundle: str | None = None, read_seconds: float = 5.0) -> Client:
    return Client(HTTPTransport(Settings(api.url, TOKEN, ca_bundle), read_seconds), "worker-1")


@pytest.fixture
def client(api: ScriptedAPI) -> Client:
    return client_of(api)


CLAIMED = (
    b'{"id": "s", "task_id": "t", "index": 0, "queue": "q", "attempt": 1, "max_attempts": 1,'
    b' "lease_token": "l", "payload": 1}'
)
PAYLOADS = [b'{"b": 1.10, "a": 1e2}', b"9007199254740993", b'{"a":1, "a" :2}', '"é\\u00e9\\ud800]}"'.encode()]


def test_payload_bytes_arrive_exactly_as_they_were_sent(api: ScriptedAPI, client: Client) -> None:
    for payload in PAYLOADS:
        api.rvq.submit(Raw(payload))
    assert [one.payload_bytes for one in client.claim(10, 60, ["default"])] == PAYLOADS


def test_a_claim_asks_for_what_it_is_told(api: ScriptedAPI, client: Client) -> None:
    assert client.claim(7, 30, ["a", "b"]) == []
    (request,) = api.requests
    assert request.json == {"worker_id": "worker-1", "limit": 7, "lease_seconds": 30, "queues": ["a", "b"]}
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Rejected),
        (401, Denied),
        (403, Denied),
        (404, Denied),
        (405, Unavailable),
        (413, Rejected),
        (415, Unavailable),
        (422, Rejected),
        (429, Unavailable),
        (500, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
    ],
)
def test_each_status_has_its_error(
    api: ScriptedAPI, client: Client, status: int, kind: type[APIError]
) -> None:
    api.script("claim", Reply(status, headers={"Retry-After": "3"}))
    with pytest.raises(kind) as caught:
        client.claim(1, 60, ["default"])
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.retry_after) == (status, 3.0)
    assert "as the test wants it" in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(api: ScriptedAPI, client: Client, status: int) -> None:
    api.script("claim", Reply(status, headers={"Location": api.url + "/v1/sub_tasks/claim"}))
    with pytest.raises(Unavailable):
        client.claim(1, 60, ["default"])
    assert len(api.requests) == 1


@pytest.mark.parametrize("fault", [Drop(), Drop(after_work=True), Cut()])
def test_an_answer_that_does_not_come_whole_is_no_answer(
    api: ScriptedAPI, client: Client, fault: Drop | Cut
) -> None:
    api.rvq.submit(1)
    api.script("claim", fault)
    with pytest.raises(Unavailable):
        client.claim(1, 60, ["default"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"[" * 100_000,
        b"{}",
        b'{"sub_tasks": {}}',
        b'{"sub_tasks": [{"id": "a"}]}',
        b'{"sub_tasks": [%b]}' % CLAIMED.replace(b'"s"', b"1"),
        b'{"sub_tasks": [%b]}' % CLAIMED.replace(b'"l"', b'["l"]'),
    ],
)
def test_an_answer_that_makes_no_sense_is_no_answer(api: ScriptedAPI, client: Client, body: bytes) -> None:
    api.script("claim", Reply(200, body))
    with pytest.raises(Unavailable, match="no sense"):
        client.claim(1, 60, ["default"])


def test_fewer_outcomes_than_reports_are_no_answer(api: ScriptedAPI, client: Client) -> None:
    api.script("complete", Reply(200, b'{"results": []}'))
    with pytest.raises(Unavailable, match="0 outcomes for 1"):
        client.complete([b'{"id":"sub_1","lease_token":"a","status":"succeeded"}'])


def test_outcomes_nested_too_deep_are_no_answer(api: ScriptedAPI, client: Client) -> None:
    api.script("heartbeat", Reply(200, b"[" * 100_000))
    with pytest.raises(Unavailable, match="no sense"):
        client.heartbeat([], 60)


def test_a_fork_can_not_call_in_the_name_of_the_worker(
    api: ScriptedAPI, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.claim(1, 60, ["default"])
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for call in (
        lambda: client.claim(1, 60, ["default"]),
        lambda: client.release([]),
        lambda: client.complete([]),
    ):
        with pytest.raises(Unavailable, match="a fork of the worker"):
            call()
    assert len(api.requests) == 1


def test_a_server_that_does_not_answer_is_given_up(api: ScriptedAPI) -> None:
    never = threading.Event()
    api.script("claim", Hold(never))
    with pytest.raises(Unavailable, match="timed out"):
        client_of(api, read_seconds=0.2).claim(1, 60, ["default"])
    never.set()


def test_nobody_there_is_unavailable(api: ScriptedAPI, client: Client) -> None:
    api.down()
    with pytest.raises(Unavailable) as caught:
        client.claim(1, 60, ["default"])
    assert caught.value.status is None
    assert TOKEN not in str(caught.value)


def test_proxies_and_netrc_of_the_surroundings_are_not_used(
    api: ScriptedAPI, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine localhost login a password b\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert client.claim(1, 60, ["default"]) == []
    assert api.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture
def tls_api(certificate: Certificate) -> Iterator[ScriptedAPI]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    api = ScriptedAPI(context)
    yield api
    api.down()


def test_a_server_of_an_unknown_authority_gets_nothing(
    tls_api: ScriptedAPI, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.chain))
    with pytest.raises(Unavailable, match=r"certificate|CERTIFICATE"):
        client_of(tls_api).claim(1, 60, ["default"])
    assert tls_api.requests == []


def test_rvq_ca_bundle_names_the_authority(tls_api: ScriptedAPI, certificate: Certificate) -> None:
    assert os.path.exists(certificate.chain)
    assert client_of(tls_api, str(certificate.chain)).claim(1, 60, ["default"]) == []


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("5", 5.0),
        ("9" * 500, MAX_RETRY_AFTER),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("²", None),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("Mon, 01 Jan 9999 00:00:00 GMT", MAX_RETRY_AFTER),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_bounds(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header) == seconds


def test_retry_after_as_a_date_counts_from_now() -> None:
    seconds = retry_after_seconds(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert seconds is not None
    assert 0 < seconds <= 30


class Refusing:
    """A transport to a server whose clock is years off."""

    def post(self, path: str, body: bytes) -> Answer:
        return Answer(503, b"{}", "Mon, 01 Jan 2001 00:00:40 GMT", "Mon, 01 Jan 2001 00:00:10 GMT")

    def close(self) -> None:
        pass


def test_retry_after_as_a_date_is_compared_with_the_servers_own_clock() -> None:
    with pytest.raises(Unavailable) as caught:
        Client(Refusing(), "w").claim(1, 60, ["default"])
    assert caught.value.retry_after == 30.0
