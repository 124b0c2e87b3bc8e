"""A dispatcher that was paused, as a stopped process or a frozen container, goes on."""

from __future__ import annotations

import os
import signal

import pytest

from tests.dispatcher.manager import Manager
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.rig import Tasks, environment, running
from tests.support.concurrency import wait_until
from tests.support.database import Database
from tests.support.pauses import Pause, frozen, stopped


def wait_for_statuses(manager: Manager, count: int) -> None:
    """Until its main thread has told that many more."""
    enough = manager.statuses() + count
    wait_until(lambda: manager.statuses() >= enough, "its main thread goes on")


@pytest.mark.parametrize("pause", [stopped, frozen])
def test_after_a_pause_it_goes_on_and_sends(
    pause: Pause, database: Database, manager: Manager, address: str
) -> None:
    tasks = Tasks(database.url)
    with (
        Receiver() as receiver,
        running(environment(database.url, receiver.host, NOTIFY_SOCKET=address)) as dispatcher,
    ):
        for _ in range(2):
            with pause(dispatcher.process.pid):
                tasks.finish(receiver.url())
            wait_for_statuses(manager, 2)
        tasks.wait_until_done()
        assert ": stopping" not in dispatcher.log
        assert dispatcher.stop() == 0
    assert len(receiver.received) == 2


def test_a_stop_that_comes_in_a_pause_is_obeyed_once_it_goes_on(database: Database) -> None:
    with running(environment(database.url)) as dispatcher:
        with stopped(dispatcher.process.pid):
            os.kill(dispatcher.process.pid, signal.SIGTERM)
        assert dispatcher.wait(30) == 0
        assert ": stopped" in dispatcher.log


def test_a_pause_while_it_stops_is_no_second_signal(database: Database) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver, running(environment(database.url, receiver.host)) as dispatcher:
        receiver.hold.clear()
        (number,) = tasks.finish(receiver.url())
        wait_until(lambda: receiver.received, "the receiver holds the request")
        dispatcher.signal(signal.SIGTERM)
        wait_until(lambda: ": stopping" in dispatcher.log, "it stops")
        with stopped(dispatcher.process.pid):
            receiver.hold.set()
        assert dispatcher.wait(30) == 0
    assert tasks.ledger(number) == [(1, "delivered", "delivered")]
