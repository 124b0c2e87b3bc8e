"""What is sent, what the environment may not change, and how an attempt is told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import tracemalloc
from email.parser import BytesParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from bench.hostile import ALL, Authority, HostileReceiver, Peer
from tests.dispatcher.senders import BODY, EVENT_ID, NAME, SECRET, SHORT, MakeSender, good


def test_the_request_is_exactly_what_was_stored_and_signed(make_sender: MakeSender) -> None:
    with HostileReceiver(good) as receiver:
        attempt = make_sender(receiver.port).send(EVENT_ID, f"http://{NAME}:{receiver.port}/a/b?c=%20d", BODY)
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    line, _, rest = head.partition(b"\r\n")
    headers = BytesParser().parsebytes(rest)
    assert line == b"POST /a/b?c=%20d HTTP/1.1"
    assert body == BODY
    usual = {"Host", "User-Agent", "Accept", "Accept-Encoding", "Content-Type", "Content-Length"}
    assert set(headers) == usual | {"webhook-id", "webhook-timestamp", "webhook-signature"}
    assert headers["Host"] == f"{NAME}:{receiver.port}"
    assert headers["Accept-Encoding"] == "identity"
    Webhook(SECRET).verify(body, dict(headers))
    assert (attempt.outcome, attempt.status_code, attempt.response_body) == ("delivered", 200, b"ok")


def test_each_try_has_its_own_time_and_the_same_id(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([1_700_000_000.9, 1_700_000_000.9, 1_700_000_060.1, 1_700_000_060.1])
    monkeypatch.setattr("dispatcher.http.sender.time.time", lambda: next(clock))
    with HostileReceiver(good) as receiver:
        sender = make_sender(receiver.port)
        for _ in range(2):
            sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    for request, moment in zip(receiver.requests, (b"1700000000", b"1700000060"), strict=True):
        assert b"\r\nwebhook-timestamp: " + moment + b"\r\n" in request
        assert b"\r\nwebhook-id: " + EVENT_ID.encode() + b"\r\n" in request


def test_a_cookie_is_never_sent_back(make_sender: MakeSender) -> None:
    def sets_a_cookie(peer: Peer) -> None:
        while peer.request():
            peer.answer("200 OK", "Set-Cookie: a=b; Path=/")

    with HostileReceiver(sets_a_cookie) as receiver:
        sender = make_sender(receiver.port)
        for _ in range(2):
            sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert len(receiver.requests) == 2
    assert not any(b"cookie" in request.lower() for request in receiver.requests)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_is_a_failure(status: int, make_sender: MakeSender) -> None:
    with HostileReceiver(good) as target:

        def redirects(peer: Peer) -> None:
            peer.request()
            peer.answer(f"{status} Moved", f"Location: http://127.0.0.1:{target.port}/")

        with HostileReceiver(redirects) as receiver:
            sender = make_sender(receiver.port, target.port)
            attempt = sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert (attempt.outcome, attempt.status_code) == ("http_error", status)
    assert "not followed" in attempt.detail
    assert target.connections == 0


def test_nothing_in_the_environment_changes_where_or_how_it_is_sent(
    authority: Authority, tmp_path: Path
) -> None:
    """In a process of its own, with every variable set before the first import."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {NAME} login user password secret\n")
    tls = authority.server_context("good")
    with HostileReceiver(good) as proxy, HostileReceiver(good) as plain, HostileReceiver(good, tls) as secure:
        proxies = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY")
        authorities = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
        environment = {
            **dict.fromkeys(proxies, f"http://127.0.0.1:{proxy.port}"),
            **dict.fromkeys(authorities, str(authority.ca_file)),
            "NETRC": str(netrc),
            "SSLKEYLOGFILE": str(tmp_path / "keys"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        program = f"""
from tests.dispatcher.senders import sender_to_loopback
for ca_file, url in [
    ({str(authority.ca_file)!r}, "http://{NAME}:{plain.port}/"),
    ({str(authority.ca_file)!r}, "https://{NAME}:{secure.port}/"),
    (None, "https://{NAME}:{secure.port}/"),
]:
    sender = sender_to_loopback({plain.port}, {secure.port}, ca_file=ca_file)
    print(sender.send("evt_1", url, b"{{}}").outcome)
"""
        command = [sys.executable, "-c", program]
        printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["delivered", "delivered", "tls_error"]
    assert proxy.connections == 0
    assert not (tmp_path / "keys").exists()
    assert not any(b"authorization" in request.lower() for request in plain.requests + secure.requests)


def test_a_body_that_the_receiver_does_not_take_ends_with_the_deadline(make_sender: MakeSender) -> None:
    done = threading.Event()

    def never_reads(peer: Peer) -> None:
        done.wait()

    with HostileReceiver(never_reads) as receiver:
        url = f"http://{NAME}:{receiver.port}/"
        attempt = make_sender(receiver.port).send(EVENT_ID, url, b"x" * 20_000_000)
        done.set()
    assert (attempt.outcome, attempt.status_code) == ("timeout", None)
    assert attempt.phases.total < (SHORT.total + 5) * 1000


@pytest.mark.parametrize(
    "name", ["gzip-bomb", "endless-body", "endless-chunks", "endless-headers", "flood-of-continues"]
)
def test_memory_stays_flat_whatever_is_sent(name: str, make_sender: MakeSender) -> None:
    with HostileReceiver(ALL[name].serve) as receiver:
        sender = make_sender(receiver.port)
        tracemalloc.start()
        try:
            sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 2 * 1024 * 1024


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (("503 Later", "Retry-After: 120"), 120),
        (("429 Slow", "Retry-After: 0"), 0),
        (("302 Found", "Retry-After: 5"), 5),
        (("503 Later", "Retry-After: 9999999999"), 86_400),
        (
            (
                "503 Later",
                "Date: Sun, 06 Nov 1994 08:49:37 GMT",
                "Retry-After: Sun, 06 Nov 1994 08:49:47 GMT",
            ),
            10,
        ),
        (("503 Later", "Retry-After: 5", "Retry-After: 9"), 5),
        (("503 Later", "Retry-After: soon"), None),
        (("503 Later", "Retry-After: \xff\0"), None),
        (("503 Later",), None),
        (("200 OK", "Retry-After: 5"), None),
    ],
)
def test_retry_after_is_read_from_any_failure(
    answer: tuple[str, ...], seconds: float | None, make_sender: MakeSender
) -> None:
    def asks_to_wait(peer: Peer) -> None:
        peer.request()
        peer.answer(*answer)

    with HostileReceiver(asks_to_wait) as receiver:
        attempt = make_sender(receiver.port).send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert attempt.retry_after == seconds


def test_an_attempt_explains_itself_as_json(make_sender: MakeSender, authority: Authority) -> None:
    with HostileReceiver(ALL["drip-body-of-a-failure"].serve, authority.server_context("good")) as receiver:
        attempt = make_sender(receiver.port).send(EVENT_ID, f"https://{NAME}:{receiver.port}/", BODY)
    told = json.loads(json.dumps(attempt.as_detail()))
    assert list(told["phases_ms"]) == ["dns", "connect", "tls", "send", "first_byte", "total"]
    assert told["address"] == "127.0.0.1"
    assert told["tls_version"].startswith("TLSv1.")
    assert told["answer_cut"] == "deadline"
    assert sum(told["phases_ms"].values()) >= told["phases_ms"]["total"]


def test_a_fault_of_our_own_is_an_outcome_and_is_logged(
    make_sender: MakeSender, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = make_sender(9).send("an id with spaces", f"http://{NAME}:9/", BODY)
    assert (attempt.outcome, attempt.detail) == ("internal_error", "ValueError")
    assert "fault of our own" in caplog.text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_a_stored_url_may_be_any_text(make_sender: MakeSender, url: str) -> None:
    assert make_sender(9).send(EVENT_ID, url, BODY).outcome == "not_allowed"


def test_nothing_listens_is_told_apart_from_no_answer(make_sender: MakeSender) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    attempt = make_sender(port).send(EVENT_ID, f"http://{NAME}:{port}/", BODY)
    assert (attempt.outcome, attempt.address) == ("refused", "127.0.0.1")
