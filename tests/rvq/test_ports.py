"""Free ports are different ones, and a taken one is told."""

from __future__ import annotations

import socket

from rvq.ports import free_port, why_taken


def test_no_port_is_given_twice() -> None:
    assert len({free_port() for _ in range(200)}) == 200


def test_a_port_that_somebody_listens_on_is_taken_until_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert why_taken("127.0.0.1", port) == "Address already in use"
    assert why_taken("127.0.0.1", port) is None
