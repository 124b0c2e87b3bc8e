"""Where a connection goes: to a vetted address of the one resolution, under the name."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from ipaddress import ip_network

import pytest

from app.webhooks.addresses import PrivateHost
from bench.hostile import Authority, HostileReceiver, Peer
from dispatcher.http.connector import Limits
from tests.dispatcher.senders import BODY, EVENT_ID, NAME, SHORT, MakeSender, good

LOOPBACK = (PrivateHost(NAME, ip_network("127.0.0.1/32")),)


class Answers:
    """A resolver that gives these answers one after the other, the last for ever; and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@contextlib.contextmanager
def black_hole(host: str, port: int = 0) -> Iterator[int]:
    """A port that takes no more connections: its queue of one is full, and nobody accepts."""
    with socket.socket() as listener, contextlib.ExitStack() as fillers:
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["0.0.0.0"],
        ["169.254.169.254"],
        ["10.0.0.1"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
        ["8.8.8.8", "64:ff9b::7f00:1"],
        ["not an address"],
        ["fe80::1%lo"],
    ],
)
def test_any_bad_answer_of_the_resolver_denies_and_nobody_is_called(
    answers: list[str], make_sender: MakeSender
) -> None:
    with HostileReceiver(good) as receiver:
        sender = make_sender(receiver.port, resolver=Answers(answers), private=())
        attempt = sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert attempt.outcome == "blocked"
    assert len(attempt.addresses_refused) == sum(answer != "8.8.8.8" for answer in answers)
    assert attempt.address is None
    assert receiver.connections == 0


def test_a_literal_private_address_on_the_list_still_needs_its_pair(make_sender: MakeSender) -> None:
    with HostileReceiver(good) as receiver:
        url = f"http://127.0.0.1:{receiver.port}/"
        assert make_sender(receiver.port, private=()).send(EVENT_ID, url, BODY).outcome == "blocked"
        assert receiver.connections == 0
        resolver = Answers(["10.0.0.1"])
        assert make_sender(receiver.port, resolver=resolver).send(EVENT_ID, url, BODY).outcome == "delivered"
    assert resolver.asked == 0


def test_a_pair_allows_its_network_only(make_sender: MakeSender) -> None:
    with HostileReceiver(good) as receiver:
        sender = make_sender(receiver.port, resolver=Answers(["127.0.0.1", "127.0.0.2"]), private=LOOPBACK)
        attempt = sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert (attempt.outcome, receiver.connections) == ("blocked", 0)
    assert "127.0.0.2" in attempt.addresses_refused[0]


def test_a_name_is_resolved_once_for_a_connection_so_that_rebinding_changes_nothing(
    make_sender: MakeSender,
) -> None:
    resolver = Answers(["127.0.0.1"], ["10.0.0.1"])
    with HostileReceiver(good) as receiver:
        sender = make_sender(receiver.port, resolver=resolver, private=LOOPBACK)
        attempt = sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert (attempt.outcome, attempt.address, resolver.asked) == ("delivered", "127.0.0.1", 1)


def test_a_fresh_connection_is_vetted_anew(make_sender: MakeSender) -> None:
    def closes(peer: Peer) -> None:
        peer.request()
        peer.answer("200 OK", "Connection: close")

    resolver = Answers(["127.0.0.1"], ["10.0.0.1"])
    with HostileReceiver(closes) as receiver:
        sender = make_sender(receiver.port, resolver=resolver, private=LOOPBACK)
        outcomes = [sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY).outcome for _ in range(2)]
    assert outcomes == ["delivered", "blocked"]


def test_the_name_and_not_the_address_is_used_for_tls_and_host(
    authority: Authority, make_sender: MakeSender
) -> None:
    asked: list[str | None] = []
    tls = authority.server_context("good")

    def note_name(sock: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        asked.append(name)

    tls.sni_callback = note_name
    with HostileReceiver(good, tls) as receiver:
        attempt = make_sender(receiver.port).send(EVENT_ID, f"https://{NAME}:{receiver.port}/", BODY)
    assert (attempt.outcome, attempt.address, asked) == ("delivered", "127.0.0.1", [NAME])
    assert f"\r\nHost: {NAME}:{receiver.port}\r\n".encode() in receiver.requests[0]


def test_a_certificate_for_the_name_does_not_serve_for_the_address(
    authority: Authority, make_sender: MakeSender
) -> None:
    with HostileReceiver(good, authority.server_context("good")) as receiver:
        attempt = make_sender(receiver.port).send(EVENT_ID, f"https://127.0.0.1:{receiver.port}/", BODY)
    assert attempt.outcome == "tls_error"
    assert "127.0.0.1" in attempt.detail


def test_a_certificate_of_an_authority_that_is_not_trusted_is_refused(
    authority: Authority, make_sender: MakeSender
) -> None:
    with HostileReceiver(good, authority.server_context("good")) as receiver:
        attempt = make_sender(receiver.port, trusted=False).send(
            EVENT_ID, f"https://{NAME}:{receiver.port}/", BODY
        )
    assert (attempt.outcome, receiver.requests) == ("tls_error", [])


def test_an_address_that_refuses_is_passed_over_for_the_next(make_sender: MakeSender) -> None:
    with HostileReceiver(good) as receiver:
        sender = make_sender(receiver.port, resolver=Answers(["127.0.0.2", "127.0.0.1"]))
        attempt = sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert (attempt.outcome, attempt.address) == ("delivered", "127.0.0.1")


def test_an_address_that_swallows_everything_leaves_time_for_the_next(make_sender: MakeSender) -> None:
    with HostileReceiver(good) as receiver, black_hole("127.0.0.2", receiver.port):
        sender = make_sender(receiver.port, resolver=Answers(["127.0.0.2", "127.0.0.1"]))
        attempt = sender.send(EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY)
    assert (attempt.outcome, attempt.address) == ("delivered", "127.0.0.1")


def test_a_black_hole_is_a_timeout_within_the_time_to_connect(make_sender: MakeSender) -> None:
    with black_hole("127.0.0.1") as port:
        attempt = make_sender(port).send(EVENT_ID, f"http://{NAME}:{port}/", BODY)
    assert attempt.outcome == "timeout"
    assert attempt.phases.connect is not None
    assert attempt.phases.total < (SHORT.connect + 0.5) * 1000


def test_many_black_holes_take_no_longer_than_one(make_sender: MakeSender) -> None:
    with contextlib.ExitStack() as holes:
        port = holes.enter_context(black_hole("127.0.0.1"))
        addresses = [f"127.0.0.{number}" for number in range(1, 9)]
        for address in addresses[1:]:
            holes.enter_context(black_hole(address, port))
        sender = make_sender(port, resolver=Answers(addresses))
        attempt = sender.send(EVENT_ID, f"http://{NAME}:{port}/", BODY)
    assert attempt.outcome == "timeout"
    assert attempt.phases.total < (SHORT.connect + 0.5) * 1000


def test_a_slow_name_server_ends_the_attempt_in_time_and_spends_no_connection(
    make_sender: MakeSender,
) -> None:
    release = threading.Event()

    def stuck(host: str, port: int) -> Sequence[str]:
        release.wait()
        return ["127.0.0.1"]

    with HostileReceiver(good) as receiver:
        attempt = make_sender(receiver.port, resolver=stuck).send(
            EVENT_ID, f"http://{NAME}:{receiver.port}/", BODY
        )
        release.set()
    assert (attempt.outcome, receiver.connections) == ("dns_error", 0)
    assert attempt.phases.total < (SHORT.resolve + 0.5) * 1000


def test_the_total_deadline_holds_over_the_limits_of_the_phases(make_sender: MakeSender) -> None:
    limits = Limits(total=0.3, resolve=10, connect=10)
    with black_hole("127.0.0.1") as port:
        attempt = make_sender(port, limits=limits).send(EVENT_ID, f"http://{NAME}:{port}/", BODY)
    assert attempt.outcome == "timeout"
    assert attempt.phases.total < (limits.total + 0.5) * 1000
