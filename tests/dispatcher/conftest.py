"""A certificate authority for the run, senders that trust it, and a service manager."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.hostile import Authority
from dispatcher.http.sender import Sender
from tests.dispatcher.manager import Manager
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


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.close()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "notify")
