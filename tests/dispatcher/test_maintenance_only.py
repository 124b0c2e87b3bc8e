"""A dispatcher without settings for webhooks does the maintenance, sends nothing and says so."""

from __future__ import annotations

import pytest

from tests.dispatcher.manager import Manager
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.rig import Tasks, environment, event_id, launched, running
from tests.support.concurrency import wait_until
from tests.support.database import Database

NAMES = ("APP_WEBHOOK_SECRET", "APP_WEBHOOK_ALLOWED_HOSTS")


@pytest.mark.parametrize("missing", [NAMES[:1], NAMES[1:], NAMES], ids=["no secret", "no hosts", "neither"])
def test_leases_expire_deadlines_end_and_webhooks_wait_for_one_that_sends(
    missing: tuple[str, ...], database: Database
) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver:
        overdue = tasks.create(2, receiver.url(), deadline_seconds=5)
        left = tasks.create(1)
        database.rows("SELECT * FROM rvq.claim_sub_tasks('{w}', '{3}', 1, ARRAY['default'])")
        database.move_clock(100)
        with running(environment(database.url, receiver.host, **dict.fromkeys(missing, ""))) as dispatcher:
            wait_until(lambda: ended(tasks) == [overdue, left], "the deadline and the lease have ended")
            assert [name for name in NAMES if f"{name}: not set" in dispatcher.log] == [*missing]
            assert dispatcher.stop() == 0
        assert receiver.received == []
        assert tasks.rows("SELECT id, attempt, lease_token FROM rvq.due_deliveries") == [(overdue, 0, None)]
        with running(environment(database.url, receiver.host)):
            tasks.wait_until_done()
        assert receiver.ids() == [event_id(overdue)]


def ended(tasks: Tasks) -> list[int]:
    return [row[0] for row in tasks.rows("SELECT id FROM rvq.events ORDER BY id")]


def test_its_maintenance_feeds_the_watchdog_and_its_status_says_what_is_off(
    database: Database, manager: Manager, address: str
) -> None:
    environ = environment(database.url, APP_WEBHOOK_SECRET="", NOTIFY_SOCKET=address, WATCHDOG_USEC="200000")
    with running(environ) as dispatcher:
        wait_until(lambda: manager.told().count("WATCHDOG=1") > 2, "the watchdog is fed")
        wait_until(lambda: manager.statuses() > 0, "it tells its status")
        assert dispatcher.stop() == 0
    (status,) = {notice for notice in manager.told() if notice.startswith("STATUS=")}
    assert status.startswith("STATUS=maintenance only, nothing is sent: APP_WEBHOOK_SECRET: not set")


@pytest.mark.parametrize(
    "name", ["APP_WEBHOOK_SECRET", "APP_WEBHOOK_ALLOWED_HOSTS", "APP_WEBHOOK_SIGNING_KEY"]
)
def test_settings_for_webhooks_that_are_wrong_are_no_missing_ones(name: str, database: Database) -> None:
    with launched(environment(database.url, **{name: "wrong!"})) as dispatcher:
        assert dispatcher.wait(30) == 78
        assert f"{name}: " in dispatcher.log
