"""A real Gunicorn that is started while its database is away, frozen or being restarted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from rvq.embedded import Cluster
from tests.app.process import Gunicorn
from tests.app.rig import PARTNER
from tests.support.concurrency import wait_until
from tests.support.disturbance import closing_connections
from tests.support.server import VERSION

Start = Callable[..., Gunicorn]
TASK = b'{"sub_tasks":[{"payload":1}]}'


def refuses(server: Gunicorn) -> bool:
    try:
        server.talk(b"GET /healthz HTTP/1.0\r\n\r\n")
    except OSError:
        return True
    return False


def test_while_the_database_is_away_it_waits_and_can_be_stopped(gunicorn: Start) -> None:
    server = gunicorn(wait=False, APP_DATABASE_URL="postgresql://rvq:hidden-word@127.0.0.1:1/rvq")
    wait_until(lambda: "waiting for the database" in server.log, "it waits", 60)
    assert refuses(server), "nobody is served before the schema is known"
    server.signal(signal.SIGTERM)
    assert server.wait() == -signal.SIGTERM
    assert "hidden-word" not in server.log
    assert "Traceback" not in server.log


@pytest.mark.parametrize("how", ["away", "frozen"])
def test_it_starts_as_soon_as_the_database_is_there(gunicorn: Start, own_cluster: Cluster, how: str) -> None:
    running = own_cluster.running
    assert running
    same = Cluster(own_cluster.folder, version=VERSION, settings=own_cluster.settings, port=running.port)
    url = own_cluster.url("rvq")
    if how == "away":
        own_cluster.stop()
    else:
        os.kill(running.pid, signal.SIGSTOP)
    try:
        server = gunicorn(wait=False, APP_DATABASE_URL=url)
        wait_until(lambda: "waiting for the database" in server.log, "it waits", 60)
    finally:
        if how == "away":
            same.start()
        else:
            os.kill(running.pid, signal.SIGCONT)
    server.wait_ready()
    assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201
    assert "Traceback" not in server.log


def test_connections_that_end_while_it_starts_are_made_anew(gunicorn: Start, own_cluster: Cluster) -> None:
    url = own_cluster.url("rvq")
    with closing_connections(url, "rvq-api"):
        server = gunicorn(wait=False, APP_DATABASE_URL=url, APP_PROCESSES="1")
        wait_until(lambda: "no warm connections" in server.log, "its start is disturbed", 60)
    wait_until(lambda: server.call("GET", "/readyz").status == 200, "it is ready", 60)
    assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201
    assert "Traceback" not in server.log
