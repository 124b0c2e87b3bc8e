"""Receivers that misbehave under TLS. All are given an https URL."""

from __future__ import annotations

import os

from bench.hostile.behaviours import CONTINUE, OK, Behaviour, drips, floods, good, silent
from bench.hostile.certificates import UNTRUSTED
from bench.hostile.peer import Peer

# The start of a handshake record of 16 kB, most of which never comes.
_START_OF_A_RECORD = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03"


def _until_closed(peer: Peer) -> None:
    """End the body by ending the connection, without TLS's own goodbye."""
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\nok")


def _plain_text(peer: Peer) -> None:
    peer.answer("400 Bad Request")


def _drip_handshake(peer: Peer) -> None:
    peer.drip(_START_OF_A_RECORD + b"\0" * 16_000)


def _garbage(peer: Peer) -> None:
    peer.flood(os.urandom(4096), times=4)
    peer.hold()


def _close_in_handshake(peer: Peer) -> None:
    peer.sock.recv(5)


def _reset_in_handshake(peer: Peer) -> None:
    peer.sock.recv(5)
    peer.reset()


def _garbage_after_handshake(peer: Peer) -> None:
    peer.request()
    os.write(peer.sock.fileno(), b"HTTP/1.1 200 OK\r\n\r\n in plain text, past the TLS layer")
    peer.hold()


# The refusal comes after the handshake, and what is seen of it depends on how far our request is by then.
_REFUSED = ("tls_error", "connect_error", "unknown")

TLS_BEHAVIOURS: dict[str, Behaviour] = {
    "tls-good": Behaviour(good, ("delivered",), None, "https", "good"),
    "tls-until-closed": Behaviour(_until_closed, ("delivered",), None, "https", "good"),
    "tls-drip-answer": Behaviour(drips(b"", CONTINUE), ("unknown",), None, "https", "good"),
    "tls-drip-body": Behaviour(drips(OK + b"\r\n", b"x"), ("delivered",), "deadline", "https", "good"),
    "tls-endless-body": Behaviour(
        floods(OK + b"\r\n", b"z" * 65536), ("delivered",), "size", "https", "good"
    ),
    "tls-garbage-after-handshake": Behaviour(_garbage_after_handshake, ("tls_error",), None, "https", "good"),
    **{f"tls-{kind}": Behaviour(good, ("tls_error",), None, "https", kind) for kind in UNTRUSTED},
    "tls-wants-client-certificate": Behaviour(good, _REFUSED, None, "https", "wants-client-certificate"),
    "tls-plain-text": Behaviour(_plain_text, ("tls_error",), None, "https"),
    "tls-silent": Behaviour(silent, ("timeout",), None, "https"),
    "tls-drip-handshake": Behaviour(_drip_handshake, ("timeout",), None, "https"),
    "tls-garbage": Behaviour(_garbage, ("tls_error",), None, "https"),
    "tls-close-in-handshake": Behaviour(_close_in_handshake, ("tls_error",), None, "https"),
    "tls-reset-in-handshake": Behaviour(_reset_in_handshake, ("tls_error",), None, "https"),
}
