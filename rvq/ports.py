"""Loopback ports for servers of our own."""

from __future__ import annotations

import socket

_given: set[int] = set()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, another one at each call."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return port


def why_taken(host: str, port: int) -> str | None:
    """Return why nobody can listen on this address now; None when it is free."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None
