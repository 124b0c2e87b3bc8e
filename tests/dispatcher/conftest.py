"""A certificate authority for the run, and senders that may reach loopback under a name of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_network

import pytest

from app.webhook_address import AllowedHost, PrivateHost
from dispatcher.connecting import Limits
from dispatcher.hostile import Authority
from dispatcher.idle import IdleLimits
from dispatcher.resolving import Resolver
from dispatcher.sending import Sender
from dispatcher.signing import Signer

NAME = "hooks.test"
EVENT_ID = "evt_00000000000001f4"
BODY = b'{"type":"task.succeeded","timestamp":"2026-01-01T00:00:00Z","data":{}}'
SECRET = b"a secret of thirty-two bytes ...!"
# Short, so that a drip is over soon; TLS's key exchange has to fit in.
SHORT = Limits(total=0.8, resolve=0.3, connect=0.3)

MakeSender = Callable[..., Sender]


def to_loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), NAME)


@pytest.fixture
def make_sender(authority: Authority) -> Iterator[MakeSender]:
    """`make_sender(port)`: a sender that may POST to hooks.test and 127.0.0.1 on that port, on loopback."""
    made: list[Sender] = []

    def make(
        *ports: int,
        limits: Limits = SHORT,
        resolver: Resolver = to_loopback,
        private: tuple[PrivateHost, ...] | None = None,
        idle_limits: IdleLimits = IdleLimits(),  # noqa: B008 - frozen
        trusted: bool = True,
    ) -> Sender:
        allowed = [
            AllowedHost(s, h, p) for p in ports for h in (NAME, "127.0.0.1") for s in ("http", "https")
        ]
        loopback = tuple(PrivateHost(host, ip_network("127.0.0.0/8")) for host in (NAME, "127.0.0.1"))
        sender = Sender(
            tuple(allowed),
            loopback if private is None else private,
            Signer((SECRET,)),
            resolver=resolver,
            limits=limits,
            idle_limits=idle_limits,
            ca_file=str(authority.ca_file) if trusted else None,
        )
        made.append(sender)
        return sender

    yield make
    for sender in made:
        sender.close()
