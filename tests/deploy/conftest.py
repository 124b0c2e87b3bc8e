"""API hosts for proxies to stand in front of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.app.process import Gunicorn
from tests.app.rig import environ
from tests.support.database import Database

Start = Callable[[], Gunicorn]


@pytest.fixture
def start_api(database: Database, tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts one more API host on the same database."""
    started: list[Gunicorn] = []

    def start() -> Gunicorn:
        api = Gunicorn(environ(database.url, APP_DB_POOL="4", APP_PROCESSES="2"), tmp_path)
        started.append(api)
        api.wait_ready()
        return api

    yield start
    for api in started:
        api.stop()
