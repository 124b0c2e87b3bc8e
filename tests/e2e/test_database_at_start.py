"""API and dispatcher that start before their database wait for it, and are ready once it is there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from rvq.embedded import Cluster
from tests.app.process import Gunicorn
from tests.app.rig import PARTNER, environ
from tests.dispatcher.rig import environment, launched
from tests.support.concurrency import wait_until
from tests.support.disturbance import closing_connections
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


def test_an_api_whose_connections_end_while_it_starts_makes_them_anew(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    url = own_cluster.url("rvq")
    with closing_connections(url, "rvq-api"):
        api = Gunicorn(environ(url, APP_PROCESSES="1"), tmp_path)
        wait_until(lambda: "no warm connections" in api.log, "its start is disturbed", 60)
    try:
        wait_until(lambda: is_ready(api), "it is ready", 60)
        assert "Traceback" not in api.log
    finally:
        api.stop()


def is_ready(api: Gunicorn) -> bool:
    try:
        return api.call("GET", "/readyz").status == 200
    except OSError:
        return False


def test_a_dispatcher_whose_connections_end_while_it_starts_waits(own_cluster: Cluster) -> None:
    url = own_cluster.url("rvq")
    with ExitStack() as stack:
        with closing_connections(url, "rvq-dispatcher"):
            dispatcher = stack.enter_context(
                launched(environment(url, "127.0.0.1:9", DISPATCHER_DB_POOL="32"))
            )
            wait_until(lambda: WAITS in dispatcher.log, "its start is disturbed", 60)
        dispatcher.wait_until_ready()
        assert "Traceback" not in dispatcher.log
        assert dispatcher.stop() == 0
