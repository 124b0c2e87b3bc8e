"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dispatcher.receiver import Receiver
from tests.e2e.rig import Rvq, running
from tests.support.database import Database


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A partner's end that takes everything; verify() of what it received asks an independent library."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def rvq(database: Database, receiver: Receiver) -> Iterator[Rvq]:
    """API and dispatcher over this test's clean database."""
    with running(database.url, receiver.host) as rvq:
        rvq.start_dispatcher()
        yield rvq
