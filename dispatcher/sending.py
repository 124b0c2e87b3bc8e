"""One delivery attempt: check the URL, connect (or reuse), send the signed body, read the answer.

Everything is our own between the socket and the result, because each guarantee needs a hand on every
blocking call: the address dialled is the one that was vetted, the attempt ends when it should, no byte more
than allowed is read. So there is also nothing here that could follow a redirect, keep a cookie, ask a proxy,
read a netrc, or unpack a body. Bench on a kept connection: bench/sending.py.
"""

from __future__ import annotations

import logging
import ssl
import time

from app.webhook_address import AddressRefused, AllowedHost, PrivateHost, Target, check_url
from dispatcher.answer import Body, Head, NotHttp, read_body, read_head
from dispatcher.attempt import Attempt, AttemptFailed, Notes, Outcome
from dispatcher.connecting import Connection, Connector, Limits
from dispatcher.deadline import Deadline
from dispatcher.idle import IdleConnections, IdleLimits
from dispatcher.incoming import Incoming, PeerClosed
from dispatcher.resolving import BoundedResolver, Resolver, system_resolver
from dispatcher.retry_after import parse_retry_after
from dispatcher.signing import Signer
from dispatcher.tls import client_context
from dispatcher.wire import Wire

log = logging.getLogger(__name__)


class _Stale(Exception):
    """A kept connection turned out to be closed before anything was answered."""


class Sender:
    """Sends under the rules of one process's settings. Thread-safe: all threads share one.

    `resolver` and `ca_file` (PEM) are for tests and private authorities; the environment is never read.
    """

    def __init__(
        self,
        allowed_hosts: tuple[AllowedHost, ...],
        private_hosts: tuple[PrivateHost, ...],
        signer: Signer,
        *,
        resolver: Resolver = system_resolver,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        idle_limits: IdleLimits = IdleLimits(),  # noqa: B008 - frozen
        ca_file: str | None = None,
    ) -> None:
        self._signer = signer
        self._limits = limits
        self._idle = IdleConnections(idle_limits)
        self._connector = Connector(BoundedResolver(resolver), private_hosts, client_context(ca_file), limits)
        self._allowed_hosts = allowed_hosts

    def send(self, event_id: str, url: str, body: bytes) -> Attempt:
        """POSTs the event once and says what became of it. Raises nothing; lasts at most `limits.total`."""
        notes = Notes()
        try:
            target = check_url(url, self._allowed_hosts)
            request = self._request(target, event_id, body)
            head, answer = self._post(target, request, Deadline(self._limits.total), notes)
            return _judge(head, answer, notes)
        except AddressRefused as refused:
            return notes.finish("not_allowed", refused.detail)
        except AttemptFailed as failed:
            return notes.finish(failed.outcome, failed.detail)
        except Exception as error:
            log.exception("an attempt broke off by a fault of our own", extra={"event_id": event_id})
            return notes.finish("internal_error", type(error).__name__)

    def close(self) -> None:
        """Closes the kept connections; those in use close after their attempt."""
        self._idle.close()

    def _request(self, target: Target, event_id: str, body: bytes) -> bytes:
        signed = self._signer.sign(event_id, int(time.time()), body)
        lines = [
            f"POST {target.path_and_query} HTTP/1.1",
            f"Host: {target.host_header}",
            "User-Agent: RVQ-Webhooks/1",
            "Accept: */*",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in signed.items()),
            "\r\n",
        ]
        return "\r\n".join(lines).encode("ascii") + body

    def _post(self, target: Target, request: bytes, deadline: Deadline, notes: Notes) -> tuple[Head, Body]:
        """Over a kept connection, or a fresh one.

        A receiver may close a kept connection just when the request is on its way. If it does so without a
        byte of an answer, the request is sent once more, on a fresh connection. It may have been acted upon:
        at-least-once allows for that, and the webhook-id tells.
        """
        connection = self._idle.take(target)
        if connection is not None:
            notes.reused, notes.address, notes.tls_version = (
                True,
                connection.address,
                connection.wire.tls_version,
            )
            try:
                return self._exchange(target, connection, request, deadline, notes)
            except _Stale:
                notes.restart()
        connection = self._connector.open(target, deadline, notes)
        return self._exchange(target, connection, request, deadline, notes)

    def _exchange(
        self, target: Target, connection: Connection, request: bytes, deadline: Deadline, notes: Notes
    ) -> tuple[Head, Body]:
        """Closes the connection unless it can be used again."""
        is_reusable = False
        try:
            _send(connection.wire, request, deadline, notes)
            incoming = Incoming(connection.wire, deadline, self._limits.head_bytes)
            head = _receive_head(incoming, notes)
            body = read_body(incoming, head, self._limits)
            is_reusable = body.cut is None and head.keeps_alive() and not incoming.unread()
            return head, body
        finally:
            if is_reusable:
                self._idle.give(target, connection)
            else:
                connection.wire.close()


def _send(wire: Wire, request: bytes, deadline: Deadline, notes: Notes) -> None:
    try:
        wire.send(request, deadline)
    except TimeoutError:
        raise AttemptFailed("timeout", "the request could not be sent in time") from None
    except OSError as error:
        if notes.reused:
            raise _Stale from None
        raise _broken(error, "connect_error", "the connection broke while sending") from None
    finally:
        notes.lap("send")


def _receive_head(incoming: Incoming, notes: Notes) -> Head:
    try:
        return read_head(incoming)
    except NotHttp as error:
        raise AttemptFailed("protocol_error", f"the answer is not HTTP: {error}") from None
    except TimeoutError:
        raise AttemptFailed("unknown", "sent, but no whole answer came in time") from None
    except (PeerClosed, OSError) as error:
        if notes.reused and incoming.first_byte is None:
            raise _Stale from None
        raise _broken(error, "unknown", "sent, but the connection ended without a whole answer") from None
    finally:
        notes.lap_until("first_byte", incoming.first_byte)


def _broken(error: Exception, outcome: Outcome, detail: str) -> AttemptFailed:
    """In TLS 1.3 a receiver refuses us (no client certificate, say) only after the handshake."""
    if isinstance(error, ssl.SSLError):
        return AttemptFailed("tls_error", f"TLS failed after the handshake: {error.reason or error}")
    return AttemptFailed(outcome, detail)


def _judge(head: Head, body: Body, notes: Notes) -> Attempt:
    outcome: Outcome = "http_error"
    if 200 <= head.status <= 299:
        outcome = "delivered"
    elif head.status == 410:
        outcome = "gone"
    detail = f"HTTP {head.status}"
    if 300 <= head.status <= 399:
        detail += ", a redirect, which is not followed"
    retry_after = parse_retry_after(head.text(b"retry-after"), head.text(b"date"), time.time())
    return notes.finish(
        outcome,
        detail,
        status_code=head.status,
        retry_after=None if outcome == "delivered" else retry_after,
        answer=body.kept,
        cut=body.cut,
    )
