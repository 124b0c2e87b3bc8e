"""Senders that may reach loopback under a name of the tests."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network

from app.webhooks.addresses import AllowedHost, PrivateHost
from bench.hostile import Peer
from dispatcher.http.connector import Limits
from dispatcher.http.pool import PoolLimits
from dispatcher.http.resolver import Resolver
from dispatcher.http.sender import Sender
from dispatcher.http.signer import Signer

NAME = "hooks.test"
EVENT_ID = "evt_00000000000001f4"
BODY = b'{"type":"task.succeeded","timestamp":"2026-01-01T00:00:00Z","data":{}}'
SECRET = b"a secret of thirty-two bytes ...!"
# Short, so that a drip is over soon; TLS's key exchange has to fit in.
SHORT = Limits(total=0.8, resolve=0.3, connect=0.3)

MakeSender = Callable[..., Sender]


def to_loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def good(peer: Peer) -> None:
    """Answers every request with 200."""
    while peer.request():
        peer.answer()


def sender_to_loopback(
    *ports: int,
    limits: Limits = SHORT,
    resolver: Resolver = to_loopback,
    private: tuple[PrivateHost, ...] | None = None,
    pool_limits: PoolLimits = PoolLimits(),  # noqa: B008 - frozen
    ca_file: str | None = None,
) -> Sender:
    """May POST to hooks.test and to 127.0.0.1 on these ports; both are on loopback, and paired with it."""
    allowed = [AllowedHost(s, h, p) for p in ports for h in (NAME, "127.0.0.1") for s in ("http", "https")]
    loopback = tuple(PrivateHost(host, ip_network("127.0.0.0/8")) for host in (NAME, "127.0.0.1"))
    return Sender(
        tuple(allowed),
        loopback if private is None else private,
        Signer((SECRET,)),
        resolver=resolver,
        limits=limits,
        pool_limits=pool_limits,
        ca_file=ca_file,
    )
