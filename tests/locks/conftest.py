"""A database with the scene in it, made once for a module: what is watched in it is rolled back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from tests.locks.scene import Scene, make_scene
from tests.support.database import Database
from tests.support.server import Server

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
# The long versions, for a machine with time.
LONG = bool(os.environ.get("RVQ_TEST_LONG"))


@contextlib.contextmanager
def database_of_its_own(server: Server, purpose: str) -> Iterator[Database]:
    """A migrated database to break functions in; gone afterwards."""
    name = f"{server.prefix}_{WORKER}_{purpose}"
    database = Database(server.create_database(name, server.template))
    try:
        yield database
    finally:
        database.close()
        server.drop_database(name)


@pytest.fixture(scope="module")
def stage(server: Server) -> Iterator[tuple[Database, Scene]]:
    with database_of_its_own(server, "locks") as database:
        yield database, make_scene(database)


@pytest.fixture
def broken_stage(server: Server) -> Iterator[tuple[Database, Scene]]:
    """As `stage`, to break something in."""
    with database_of_its_own(server, "broken") as database:
        scene = make_scene(database)
        yield database, scene
