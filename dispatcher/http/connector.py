"""Connections are opened to vetted addresses: one resolution, every address checked, the peer verified.

The address is dialled, and the name is kept for Host, SNI and the certificate. Nothing after this looks the
name up again, so a name that resolves differently between check and use changes nothing.
"""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass, field
from ipaddress import ip_address

from app.webhooks.addresses import AddressRefused, PrivateHost, Target, check_address
from dispatcher.http.attempt import AttemptFailed, AttemptTrace
from dispatcher.http.resolver import BoundedResolver, ResolutionFailed
from dispatcher.http.wire import Deadline, Wire


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes that bound an attempt. An attempt never lasts longer than `total`."""

    total: float = 15.0
    resolve: float = 5.0
    connect: float = 3.0
    head_bytes: int = 32 * 1024
    body_bytes: int = 64 * 1024
    kept_bytes: int = 8 * 1024


@dataclass(slots=True)
class Connection:
    """An open wire to a vetted address; TLS, where the scheme asks for it, is done."""

    wire: Wire
    address: str
    opened: float = field(default_factory=time.monotonic)
    idle_since: float = 0.0


class Connector:
    """Opens connections under the rules of one process's settings; thread-safe."""

    def __init__(
        self,
        resolver: BoundedResolver,
        private_hosts: tuple[PrivateHost, ...],
        context: ssl.SSLContext,
        limits: Limits,
    ) -> None:
        self._resolver = resolver
        self._private_hosts = private_hosts
        self._context = context
        self._limits = limits

    def open(self, target: Target, deadline: Deadline, trace: AttemptTrace) -> Connection:
        """Return a fresh connection to `target`. Raises AttemptFailed, which says which step did not work."""
        addresses = self._resolve(target, deadline, trace)
        sock = self._dial(addresses, target.port, deadline, trace)
        wire = Wire(sock)
        if target.scheme == "https":
            self._handshake(wire, target.host, deadline, trace)
        return Connection(wire, str(trace.address))

    def _resolve(self, target: Target, deadline: Deadline, trace: AttemptTrace) -> list[str]:
        """Return the vetted addresses. A bad one denies all: who mixes them is probing, or misconfigured."""
        try:
            addresses = self._look_up(target, deadline)
        except ResolutionFailed as error:
            raise AttemptFailed("dns_error", str(error)) from None
        finally:
            trace.end_phase("dns")
        vetted, refused = [], []
        for address in addresses:
            try:
                vetted.append(check_address(address, target.host, self._private_hosts))
            except AddressRefused as error:
                refused.append(error.detail)
        if refused:
            trace.addresses_refused = tuple(refused)
            raise AttemptFailed("blocked", f"{target.host}: {'; '.join(refused)}")
        return vetted

    def _look_up(self, target: Target, deadline: Deadline) -> list[str]:
        try:
            return [str(ip_address(target.host))]
        except ValueError:
            seconds = min(self._limits.resolve, deadline.remaining())
            return self._resolver.resolve(target.host, target.port, seconds)

    def _dial(
        self, addresses: list[str], port: int, deadline: Deadline, trace: AttemptTrace
    ) -> socket.socket:
        """Connect to the first address that accepts. They share the time, so that a dead one leaves some."""
        connecting = Deadline(min(self._limits.connect, deadline.remaining()))
        failed: AttemptFailed | None = None
        try:
            for tried, address in enumerate(addresses):
                trace.address = address
                try:
                    return _connect(address, port, connecting.remaining() / min(len(addresses) - tried, 3))
                except TimeoutError:
                    failed = AttemptFailed("timeout", f"no connection to {address} in time")
                except ConnectionRefusedError:
                    failed = AttemptFailed("refused", f"nobody listens at {address} port {port}")
                except OSError as error:
                    failed = AttemptFailed("connect_error", f"{address}: {error.strerror or error}")
        finally:
            trace.end_phase("connect")
        raise failed or AttemptFailed("connect_error", "no address to connect to")

    def _handshake(self, wire: Wire, host: str, deadline: Deadline, trace: AttemptTrace) -> None:
        try:
            wire.secure(self._context, host, deadline)
        except OSError as error:
            wire.close()
            raise _tls_failure(error) from None
        finally:
            trace.end_phase("tls")
        trace.tls_version = wire.tls_version


def _tls_failure(error: OSError) -> AttemptFailed:
    if isinstance(error, TimeoutError):
        return AttemptFailed("timeout", "the TLS handshake did not end in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return AttemptFailed("tls_error", f"the certificate is refused: {error.verify_message}")
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return AttemptFailed("tls_error", f"the TLS handshake failed: {reason or 'the connection ended'}")


def _connect(address: str, port: int, seconds: float) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        sock.connect((address, port))
        peer = sock.getpeername()
        if ip_address(peer[0]) != ip_address(address) or peer == sock.getsockname():
            raise OSError(f"connected to {peer[0]} instead")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock
