"""The service manager's protocol, on a real datagram socket."""

from __future__ import annotations

import os
import time

import pytest

from dispatcher.daemon import Daemon
from dispatcher.delivery import Delivery
from dispatcher.http.sender import make_sender
from dispatcher.systemd import Notifier
from tests.dispatcher.manager import Manager
from tests.dispatcher.rig import environment, running, settings
from tests.support.concurrency import wait_until
from tests.support.database import Database


def test_without_a_service_manager_nothing_happens() -> None:
    notifier = Notifier({})
    notifier.ready()
    notifier.feed_watchdog()


def test_each_notice_is_a_datagram(manager: Manager, address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.status("sending")
    notifier.stopping()
    assert manager.told() == ["READY=1", "STATUS=sending", "STOPPING=1"]


def test_a_name_that_begins_with_at_is_in_the_abstract_name_space() -> None:
    name = f"rvq-test-{os.getpid()}"
    manager = Manager("\0" + name)
    Notifier({"NOTIFY_SOCKET": "@" + name}).ready()
    assert manager.told() == ["READY=1"]
    manager.close()


def test_the_watchdog_is_fed_only_when_the_unit_asks_for_it(manager: Manager, address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address}).feed_watchdog()
    Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).feed_watchdog()
    assert manager.told() == []
    notifier = Notifier(
        {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}
    )
    notifier.feed_watchdog()
    notifier.feed_watchdog()
    assert manager.told() == ["WATCHDOG=1"]


def test_a_manager_that_is_gone_does_no_harm(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address}).ready()


def test_a_dispatcher_is_ready_then_feeds_the_watchdog_then_stops(
    database: Database, manager: Manager, address: str
) -> None:
    environ = environment(database.url, NOTIFY_SOCKET=address, WATCHDOG_USEC="200000")
    with running(environ) as dispatcher:
        wait_until(lambda: manager.told().count("WATCHDOG=1") > 2, "the watchdog is fed")
        assert dispatcher.stop() == 0
    told = [notice for notice in manager.told() if not notice.startswith("STATUS=")]
    assert told.count("READY=1") == told.count("STOPPING=1") == 1
    assert told.index("READY=1") < told.index("STOPPING=1")
    assert any(notice.startswith("STATUS=attempts ") for notice in manager.told()) or told[-1] == "STOPPING=1"


def test_the_watchdog_goes_hungry_while_a_delivery_outlives_its_lease(
    database: Database, manager: Manager, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000"})
    read = settings(database.url)
    daemon = Daemon(read, notifier, make_sender(read))
    assert daemon._outbox
    stuck = Delivery(1, 1, 1, "http://one.test/", "one.test", b"{}", "", 0.0, 0.0)
    daemon._outbox._in_flight.begin([stuck])
    now = time.monotonic()
    monkeypatch.setattr("dispatcher.outbox.in_flight.time.monotonic", lambda: now + 34)
    daemon.feed_watchdog()
    assert manager.told() == ["WATCHDOG=1"]
    monkeypatch.setattr("dispatcher.outbox.in_flight.time.monotonic", lambda: now + 36)
    monkeypatch.setattr("dispatcher.systemd.time.monotonic", lambda: now + 36)
    daemon.feed_watchdog()
    assert manager.told() == ["WATCHDOG=1"]
    daemon._outbox._in_flight.cancel([stuck])
    daemon.feed_watchdog()
    assert manager.told() == ["WATCHDOG=1", "WATCHDOG=1"]
