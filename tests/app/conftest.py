"""Fixtures of the API's tests: the application in this process, or real Gunicorns on real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.db import Pool
from tests.app.process import SERVERS, Gunicorn
from tests.app.rig import Caller, environ, make_caller
from tests.support.database import Database


@pytest.fixture(scope="session")
def pool(database_url: str) -> Iterator[Pool]:
    pool = Pool(database_url, 2, "rvq-api-test")
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def session_caller(database_url: str, pool: Pool) -> Caller:
    return make_caller(database_url, pool)


@pytest.fixture
def api(session_caller: Caller, database: Database) -> Caller:
    """Return the API over this test's clean database."""
    return session_caller


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of a real server under our worker and under Gunicorn's own, unless it is about ours."""
    if "served_by" in metafunc.fixturenames:
        only_ours = metafunc.definition.get_closest_marker("fast_server")
        metafunc.parametrize("served_by", ["fast"] if only_ours else [*SERVERS], scope="module")


@pytest.fixture
def gunicorn(database: Database, tmp_path: Path, served_by: str) -> Iterator[Callable[..., Gunicorn]]:
    """Yield a function that starts Gunicorn with settings changed (None: removed); stop it afterwards."""
    started: list[Gunicorn] = []

    def start(*, wait: bool = True, **changes: str | None) -> Gunicorn:
        process = Gunicorn(environ(database.url, **changes), tmp_path, served_by)
        started.append(process)
        if wait:
            process.wait_ready()
        return process

    yield start
    for process in started:
        process.stop()
