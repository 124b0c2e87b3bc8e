"""A certificate authority for the run, and senders that trust it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from bench.hostile import Authority
from dispatcher.http.sender import Sender
from tests.dispatcher.senders import NAME, MakeSender, sender_to_loopback


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), NAME)


@pytest.fixture
def make_sender(authority: Authority) -> Iterator[MakeSender]:
    """`sender_to_loopback`, which trusts the tests' authority, and is closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(*ports: int, trusted: bool = True, **options: Any) -> Sender:
            sender = sender_to_loopback(
                *ports, ca_file=str(authority.ca_file) if trusted else None, **options
            )
            stack.callback(sender.close)
            return sender

        yield make
