"""One delivery attempt: check the URL, connect (or reuse), send the signed body, read the response.

All code between the socket and the result is our own, because each guarantee needs control of every
blocking call: the address dialled is the one that was vetted, the attempt ends when it should, no byte more
than allowed is read. So there is also nothing here that could follow a redirect, keep a cookie, ask a proxy,
read a netrc, or unpack a body. bench/micro/post_cpu.py measures its cost on a kept connection.
"""

from __future__ import annotations

import logging
import ssl
import time

from app.settings import Settings
from app.webhooks.addresses import AddressRefused, AllowedHost, PrivateHost, Target, check_url
from app.webhooks.outcomes import Outcome
from dispatcher.http.attempt import Attempt, AttemptFailed, AttemptTrace
from dispatcher.http.connector import Connection, Connector, Limits
from dispatcher.http.pool import ConnectionPool, PoolLimits
from dispatcher.http.reader import PeerClosed, Reader
from dispatcher.http.resolver import BoundedResolver, Resolver, system_resolver
from dispatcher.http.response import Body, Head, NotHttp, read_body, read_head
from dispatcher.http.retry_after import parse_retry_after
from dispatcher.http.signer import Signer
from dispatcher.http.tls import client_context
from dispatcher.http.wire import Deadline, Wire

log = logging.getLogger(__name__)


class _Stale(Exception):
    """A kept connection turned out to be closed before any byte of a response came."""


class Sender:
    """Makes delivery attempts under one process's settings. Thread-safe: all threads share one.

    `resolver` and `ca_file` (PEM) are for tests and the hostile suite; the environment is never read.
    """

    def __init__(
        self,
        allowed_hosts: tuple[AllowedHost, ...],
        private_hosts: tuple[PrivateHost, ...],
        signer: Signer,
        *,
        resolver: Resolver = system_resolver,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        pool_limits: PoolLimits = PoolLimits(),  # noqa: B008 - frozen
        ca_file: str | None = None,
    ) -> None:
        self.limits = limits
        self._signer = signer
        self._pool = ConnectionPool(pool_limits)
        self._connector = Connector(BoundedResolver(resolver), private_hosts, client_context(ca_file), limits)
        self._allowed_hosts = allowed_hosts

    def send(self, event_id: str, url: str, body: bytes) -> Attempt:
        """POST the event once and return the attempt. Raises nothing; lasts at most `limits.total`."""
        trace = AttemptTrace()
        try:
            target = check_url(url, self._allowed_hosts)
            request = self._request(target, event_id, body)
            head, kept = self._post(target, request, Deadline(self.limits.total), trace)
            return _finish(head, kept, trace)
        except AddressRefused as refused:
            return trace.finish("not_allowed", refused.detail)
        except AttemptFailed as failed:
            return trace.finish(failed.outcome, failed.detail)
        except Exception as error:
            log.exception("an attempt broke off by a fault of our own", extra={"event_id": event_id})
            return trace.finish("internal_error", type(error).__name__)

    def close(self) -> None:
        """Close the kept connections; those in use are closed after their attempt."""
        self._pool.close()

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

    def _post(
        self, target: Target, request: bytes, deadline: Deadline, trace: AttemptTrace
    ) -> tuple[Head, Body]:
        """Send the request over a kept connection, or a fresh one, and read the response.

        A receiver may close a kept connection just when the request is on its way. If it does so without a
        byte of a response, the request is sent once more, on a fresh connection. It may have been acted upon:
        at-least-once allows for that, and the webhook-id tells.
        """
        connection = self._pool.take(target)
        if connection is not None:
            trace.reused = True
            trace.address, trace.tls_version = connection.address, connection.wire.tls_version
            try:
                return self._exchange(target, connection, request, deadline, trace)
            except _Stale:
                trace.restart()
        connection = self._connector.open(target, deadline, trace)
        return self._exchange(target, connection, request, deadline, trace)

    def _exchange(
        self, target: Target, connection: Connection, request: bytes, deadline: Deadline, trace: AttemptTrace
    ) -> tuple[Head, Body]:
        """Send and read on this connection; close it unless it can be used again."""
        is_reusable = False
        try:
            _send(connection.wire, request, deadline, trace)
            reader = Reader(connection.wire, deadline, self.limits.head_bytes)
            head = _receive_head(reader, trace)
            body = read_body(reader, head, self.limits)
            is_reusable = body.cut is None and head.keeps_alive() and not reader.unread()
            return head, body
        finally:
            if is_reusable:
                self._pool.give(target, connection)
            else:
                connection.wire.close()


def make_sender(
    settings: Settings,
    *,
    resolver: Resolver = system_resolver,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    ca_file: str | None = None,
) -> Sender:
    """Return a sender with the settings' hosts and keys, which keeps connections for all its threads."""
    threads = settings.dispatcher_threads
    return Sender(
        settings.webhook_allowed_hosts,
        settings.webhook_private_hosts,
        Signer(settings.webhook_secrets, settings.webhook_signing_key),
        resolver=resolver,
        limits=limits,
        pool_limits=PoolLimits(per_host=threads, in_all=8 * threads),
        ca_file=ca_file,
    )


def _send(wire: Wire, request: bytes, deadline: Deadline, trace: AttemptTrace) -> None:
    try:
        wire.send(request, deadline)
    except TimeoutError:
        raise AttemptFailed("timeout", "the request could not be sent in time") from None
    except OSError as error:
        if trace.reused:
            raise _Stale from None
        raise _connection_failure(error, "connect_error", "the connection broke while sending") from None
    finally:
        trace.end_phase("send")


def _receive_head(reader: Reader, trace: AttemptTrace) -> Head:
    try:
        return read_head(reader)
    except NotHttp as error:
        raise AttemptFailed("protocol_error", f"the answer is not HTTP: {error}") from None
    except TimeoutError:
        raise AttemptFailed("unknown", "sent, but no whole answer came in time") from None
    except (PeerClosed, OSError) as error:
        if trace.reused and reader.first_byte is None:
            raise _Stale from None
        raise _connection_failure(
            error, "unknown", "sent, but the connection ended without a whole answer"
        ) from None
    finally:
        if reader.first_byte is not None:
            trace.end_phase("first_byte", reader.first_byte)


def _connection_failure(error: Exception, outcome: Outcome, detail: str) -> AttemptFailed:
    """Return what a broken connection means.

    In TLS 1.3 a receiver refuses us (no client certificate, say) only after the handshake.
    """
    if isinstance(error, ssl.SSLError):
        return AttemptFailed("tls_error", f"TLS failed after the handshake: {error.reason or error}")
    return AttemptFailed(outcome, detail)


def _finish(head: Head, body: Body, trace: AttemptTrace) -> Attempt:
    """Return the attempt, with the outcome that the status means."""
    outcome: Outcome = "http_error"
    if 200 <= head.status <= 299:
        outcome = "delivered"
    elif head.status == 410:
        outcome = "gone"
    detail = f"HTTP {head.status}"
    if 300 <= head.status <= 399:
        detail += ", a redirect, which is not followed"
    retry_after = parse_retry_after(head.text(b"retry-after"), head.text(b"date"), time.time())
    return trace.finish(
        outcome,
        detail,
        status_code=head.status,
        retry_after=None if outcome == "delivered" else retry_after,
        response_body=body.kept,
        cut=body.cut,
    )
