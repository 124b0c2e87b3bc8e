"""Connections are kept where that is safe, and never cost a delivery."""

from __future__ import annotations

import contextlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.hostile import ALL, Authority, HostileReceiver, Peer
from dispatcher.http.connector import Limits
from dispatcher.http.pool import PoolLimits
from tests.dispatcher.senders import BODY, EVENT_ID, NAME, SHORT, MakeSender, good

PATIENT = Limits(total=20, connect=10)


def test_one_connection_serves_many_attempts(make_sender: MakeSender) -> None:
    with HostileReceiver(good) as receiver:
        sender = make_sender(receiver.port)
        attempts = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/{n}", BODY) for n in range(5)]
    assert [attempt.outcome for attempt in attempts] == ["delivered"] * 5
    assert [attempt.reused for attempt in attempts] == [False, True, True, True, True]
    assert {attempt.address for attempt in attempts} == {"127.0.0.1"}
    assert (receiver.connections, len(receiver.requests)) == (1, 5)


def test_over_tls_the_handshake_is_made_once(authority: Authority, make_sender: MakeSender) -> None:
    with HostileReceiver(good, authority.server_context("good")) as receiver:
        sender = make_sender(receiver.port)
        first, second = (sender.send(EVENT_ID, f"https://{NAME}:{receiver.port}/", BODY) for _ in range(2))
    assert (first.phases.tls is None, second.phases.tls is None) == (False, True)
    assert first.tls_version == second.tls_version is not None
    assert receiver.connections == 1


@pytest.mark.parametrize(
    "name",
    ["unasked-second-answer", "endless-body", "two-lengths", "http-1.0", "status-101", "cut-body", "echo"],
)
def test_a_connection_whose_answer_did_not_end_cleanly_is_not_used_again(
    name: str, make_sender: MakeSender
) -> None:
    with HostileReceiver(ALL[name].serve) as receiver:
        sender = make_sender(receiver.port)
        attempts = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY) for _ in range(2)]
    assert [attempt.reused for attempt in attempts] == [False, False]
    assert receiver.connections == 2


def test_a_kept_connection_that_is_closed_under_the_request_costs_one_more_connection(
    make_sender: MakeSender,
) -> None:
    with HostileReceiver(ALL["closes-kept-connections"].serve) as receiver:
        sender = make_sender(receiver.port)
        attempts = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY) for _ in range(2)]
    assert [(attempt.outcome, attempt.reused) for attempt in attempts] == [("delivered", False)] * 2
    # The second event came twice, as at-least-once allows, under one id and signature.
    assert (receiver.connections, len(receiver.requests)) == (2, 3)
    assert receiver.requests[1] == receiver.requests[2]


def test_it_is_sent_once_more_and_not_again_and_again(make_sender: MakeSender) -> None:
    served = 0

    def answers_the_first_request_only(peer: Peer) -> None:
        nonlocal served
        served += 1
        peer.request()
        if served == 1:
            peer.answer()
            peer.request()

    with HostileReceiver(answers_the_first_request_only) as receiver:
        sender = make_sender(receiver.port)
        attempts = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY) for _ in range(2)]
    assert [attempt.outcome for attempt in attempts] == ["delivered", "unknown"]
    assert receiver.connections == 2


def test_a_kept_connection_on_which_an_answer_began_is_not_tried_again(make_sender: MakeSender) -> None:
    def breaks_off(peer: Peer) -> None:
        peer.request()
        peer.answer()
        peer.request()
        peer.send(b"HTTP/1.1 2")

    with HostileReceiver(breaks_off) as receiver:
        sender = make_sender(receiver.port)
        attempts = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY) for _ in range(2)]
    assert [(attempt.outcome, attempt.reused) for attempt in attempts] == [
        ("delivered", False),
        ("unknown", True),
    ]
    assert receiver.connections == 1


def test_a_kept_connection_that_falls_silent_ends_with_the_deadline_of_its_own_attempt(
    make_sender: MakeSender,
) -> None:
    def falls_silent(peer: Peer) -> None:
        for _ in range(3):
            peer.request()
            peer.answer()
        peer.hold()

    with HostileReceiver(falls_silent) as receiver:
        sender = make_sender(receiver.port)
        attempts = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY) for _ in range(4)]
    assert [attempt.outcome for attempt in attempts] == ["delivered"] * 3 + ["unknown"]
    assert SHORT.total * 1000 <= attempts[-1].phases.total < (SHORT.total + 5) * 1000


def test_a_connection_is_kept_for_its_own_host_and_scheme_only(
    authority: Authority, make_sender: MakeSender
) -> None:
    tls = authority.server_context("good")
    with HostileReceiver(good) as one, HostileReceiver(good) as other, HostileReceiver(good, tls) as secure:
        sender = make_sender(one.port, other.port, secure.port)
        urls = [f"http://{NAME}:{one.port}/", f"http://127.0.0.1:{one.port}/", f"http://{NAME}:{other.port}/"]
        urls.append(f"https://{NAME}:{secure.port}/")
        assert not any(sender.send(EVENT_ID, url, BODY).reused for url in urls)
        assert all(sender.send(EVENT_ID, url, BODY).reused for url in urls)


@pytest.mark.parametrize(
    "limits", [PoolLimits(life=0), PoolLimits(idle=0), PoolLimits(per_host=0), PoolLimits(in_all=0)]
)
def test_no_connection_is_kept_beyond_its_limits(limits: PoolLimits, make_sender: MakeSender) -> None:
    with HostileReceiver(good) as receiver:
        sender = make_sender(receiver.port, pool_limits=limits)
        attempts = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY) for _ in range(3)]
    assert not any(attempt.reused for attempt in attempts)
    assert receiver.connections == 3


def test_a_closed_sender_keeps_nothing(make_sender: MakeSender) -> None:
    ended = 0

    def until_it_ends(peer: Peer) -> None:
        nonlocal ended
        with contextlib.suppress(ConnectionError):
            while peer.request():
                peer.answer()
        ended += 1

    with HostileReceiver(until_it_ends) as receiver:
        sender = make_sender(receiver.port)
        sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
        sender.close()
        receiver.join_connections()
        assert ended == 1
        assert sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY).outcome == "delivered"
        receiver.join_connections()
        assert ended == 2


def test_many_threads_share_a_sender_and_every_answer_belongs_to_its_request(make_sender: MakeSender) -> None:
    def echoes_its_path(peer: Peer) -> None:
        while request := peer.request():
            peer.answer(body=request.split(b" ")[1])

    with HostileReceiver(echoes_its_path) as receiver:
        sender = make_sender(receiver.port, limits=PATIENT, pool_limits=PoolLimits(per_host=16))

        def send(number: int) -> tuple[str, bool]:
            attempt = sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/{number}", BODY)
            return attempt.outcome, attempt.response_body == f"/{number}".encode()

        with ThreadPoolExecutor(16) as pool:
            seen = Counter(pool.map(send, range(800)))
    assert seen == {("delivered", True): 800}
    assert receiver.connections <= 16
