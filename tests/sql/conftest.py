"""Fixtures of the SQL tests: calls on the main connection, and more connections for races."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sql.calls import Calls
from tests.support.database import Database


@pytest.fixture
def rvq(database: Database) -> Calls:
    """Calls on the main connection of a clean database."""
    return Calls(database.main)


@pytest.fixture
def another(database: Database) -> Callable[[], Calls]:
    """Makes calls on one more connection, in autocommit."""
    return lambda: Calls(database.connect())


@pytest.fixture
def in_transaction(database: Database) -> Callable[[], Calls]:
    """Makes calls on one more connection whose transaction stays open until it is committed."""
    return lambda: Calls(database.connect(autocommit=False))
