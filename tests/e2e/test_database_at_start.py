"""API and dispatcher that start before their database wait for it, and are ready once it is there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from rvq.embedded import Cluster
from tests.app.process import Gunicorn
from tests.app.rig import PARTNER, environ
from tests.dispatcher.rig import environment, launched
from tests.support.concurrency import wait_until
from tests.support.server import VERSION

WAITS = "waiting for the database"
Away = Callable[[Cluster], AbstractContextManager[None]]


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    assert cluster.running
    port = cluster.running.port
    cluster.stop()
    yield
    Cluster(cluster.folder, version=VERSION, settings=cluster.settings, port=port).start()


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """It takes connections, as the kernel does that for it, and says nothing."""
    assert cluster.running
    os.kill(cluster.running.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(cluster.running.pid, signal.SIGCONT)


@pytest.mark.parametrize("away", [stopped, frozen])
def test_they_wait_for_a_database_that_is_away_at_their_start(
    own_cluster: Cluster, tmp_path: Path, away: Away
) -> None:
    url = own_cluster.url("rvq")
    with away(own_cluster):
        api = Gunicorn(environ(url, APP_DB_POOL="4", APP_PROCESSES="2"), tmp_path)
        with launched(environment(url, "127.0.0.1:9")) as dispatcher:
            wait_until(lambda: WAITS in api.log and WAITS in dispatcher.log, "both wait", 60)
            dispatcher.stop()
    try:
        api.wait_ready()
        assert api.call("POST", "/v1/tasks", b'{"sub_tasks":[{"payload":1}]}', token=PARTNER).status == 201
        assert "Traceback" not in api.log
    finally:
        api.stop()
    with launched(environment(url, "127.0.0.1:9")) as dispatcher:
        dispatcher.wait_until_ready()
        assert dispatcher.stop() == 0
