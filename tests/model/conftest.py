"""The machine, on a database of its own. What differs between the model and the database is shown."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.model.machine")

from tests.model.drill import DrilledMachine  # noqa: E402 - rewritten first
from tests.model.stage import set_the_stage  # noqa: E402
from tests.support.database import Database  # noqa: E402
from tests.support.server import Server  # noqa: E402


@pytest.fixture
def machine(server: Server) -> Iterator[type[DrilledMachine]]:
    """A machine whose database has a clock that stands still, and functions that may be broken."""
    name = f"{server.prefix}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_model"
    database = Database(server.create_database(name, server.template))
    members = {"database": database, "base": set_the_stage(database), "seen": set()}
    yield type("MachineOnDatabase", (DrilledMachine,), members)
    database.close()
    server.drop_database(name)
