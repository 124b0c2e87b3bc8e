"""A release and the one before on one database, a node after the other, while partners and workers go on."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from rvq.local.processes import Process
from rvq.local.settings import child_environ
from rvq.local.stack import API_MALLOC, READY_SECONDS, is_ready, python
from tests.dispatcher.receiver import Receiver
from tests.e2e.load import Load, partners
from tests.e2e.rig import Rvq, running
from tests.support.concurrency import wait_until
from tests.support.next_release import NEW_NAME, RENAMED, NextRelease, make_next_release

TAKEN_OR_TRY_AGAIN = {200, 201, 503}


@pytest.fixture
def next_release(tmp_path: Path) -> NextRelease:
    return make_next_release(tmp_path)


@contextlib.contextmanager
def always_ready(node: Rvq) -> Iterator[None]:
    """The node says that it is ready, whenever it is asked during the block."""
    stop, statuses = threading.Event(), Counter[int]()

    def watch() -> None:
        while not stop.wait(0.02):
            statuses[node.call("GET", "/readyz").status] += 1

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    assert set(statuses) == {200}


def start_next_api(node: Rvq, release: NextRelease) -> None:
    """Start the next release's API in the place of this one's, and wait until it is ready."""
    environ = child_environ({**node.settings, **API_MALLOC, **release.environment})
    command = python("gunicorn", "-c", str(release.gunicorn_config), "app.wsgi:app")
    node.api = Process("the next API", command, environ, log=node.folder / "api.log")
    node.processes.append(node.api)
    node.api.wait_until(lambda: is_ready(node.bind), READY_SECONDS)


def column(url: str, statement: str) -> list[object]:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()]


def more(*loads: Load) -> None:
    """Wait until each of them has created some more tasks."""
    goals = [load.created + 20 for load in loads]
    wait_until(lambda: all(load.created >= n for load, n in zip(loads, goals, strict=True)), "more tasks", 60)


def verify(node: Rvq, receiver: Receiver) -> int:
    """Ask a node about a webhook that was sent, for which it reads the event."""
    one = receiver.received[0]
    body = {"headers": dict(one.headers), "body": one.body.decode()}
    return node.call("POST", "/v1/webhooks/verify", body).status


@pytest.mark.slow
def test_a_release_rolls_out_under_load_and_the_one_before_may_start_again(
    empty_database: str, receiver: Receiver, next_release: NextRelease
) -> None:
    with running(empty_database, receiver.host) as one, running(empty_database, receiver.host) as two:
        two.settings.update({name: text for name, text in one.settings.items() if name != "APP_BIND"})
        two.api.stop()
        two.start_api()
        one.start_dispatcher()
        for node in (one, two):
            node.start_worker("Echo")
        url = receiver.url()
        with (
            partners(one, 2, patient=True, webhook_url=url) as load_one,
            partners(two, 2, kept=True, patient=True, webhook_url=url) as load_two,
        ):
            more(load_one, load_two)
            with always_ready(two):
                one.api.stop()
                start_next_api(one, next_release)
                more(load_one, load_two)
            with always_ready(one):
                two.api.stop()
                two.start_api()
                one.dispatcher.stop()
                two.start_dispatcher()
                more(load_one, load_two)
                assert verify(one, receiver) == verify(two, receiver) == 200
                named = "SELECT proname::text FROM pg_proc WHERE proname IN (%s) ORDER BY proname"
                there = column(empty_database, named % f"'{RENAMED}', '{NEW_NAME}'")
                assert there == [NEW_NAME, RENAMED]
                two.api.stop()
                start_next_api(two, next_release)
                two.dispatcher.stop()
                two.start_dispatcher(**next_release.environment)
                more(load_one, load_two)
        assert {*load_one.statuses, *load_two.statuses} <= TAKEN_OR_TRY_AGAIN
        tasks = {*load_one.tasks.values(), *load_two.tasks.values()}
        assert len(tasks) == load_one.created + load_two.created
        wait_until(lambda: tasks <= {told(one) for one in receiver.ids()}, "every task is told about", 60)
        events = [(event["data"]["task_id"], event["type"]) for event in two.pages("/v1/events")]
        assert sorted(events) == sorted((task, "task.succeeded") for task in tasks)


def told(webhook_id: str) -> str:
    """Return the task whose end a webhook tells about."""
    return webhook_id.replace("evt_", "task_")
