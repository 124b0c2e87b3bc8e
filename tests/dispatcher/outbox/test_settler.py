"""The settle loop's step: what is recorded, what is kept, and what is given up."""

from __future__ import annotations

import pytest

from app.db import DatabaseError
from dispatcher.delivery import Delivery, Lease
from rvq.embedded import Cluster
from tests.dispatcher.rig import Tasks
from tests.dispatcher.steps import Steps, attempt, stepping
from tests.support.concurrency import wait_until
from tests.support.database import Database

URL = "http://one.test/hook"


def claim(steps: Steps, count: int) -> list[Delivery]:
    """Past the host's limits, which are not the point here."""
    deliveries = steps.store.claim(count, 30, count, ([], []))
    steps.in_flight.begin(deliveries)
    return deliveries


def test_a_batch_is_recorded_with_all_that_explains_it(database: Database) -> None:
    tasks = Tasks(database.url)
    tasks.finish(URL, 3)
    with stepping(database.url) as steps:
        first, second, third = claim(steps, 3)
        steps.end(first, attempt("delivered", 200, b"thanks"))
        steps.end(second, attempt("http_error", 500, bytes(range(256))))
        steps.end(third, attempt("gone", 410))
        steps.settler.step()
        assert steps.in_flight.unsettled == 0
        assert (steps.metrics.attempts, steps.metrics.delivered, steps.metrics.dead) == (3, 1, 1)
    rows = database.rows("SELECT id, outcome, status_code, status, answer FROM rvq.delivery_attempts")
    found = {row[0]: (*row[1:4], bytes(row[4] or b"")) for row in rows}
    assert found[first.id] == ("delivered", 200, "delivered", b"thanks")
    assert found[second.id] == ("http_error", 500, "pending", bytes(range(256)))
    assert found[third.id] == ("gone", 410, "dead", b"")


def test_why_it_is_dead_is_in_the_ledger(database: Database) -> None:
    Tasks(database.url).finish(URL)
    with stepping(database.url) as steps:
        (delivery,) = claim(steps, 1)
        steps.end(delivery, attempt("not_allowed"))
        steps.settler.step()
    assert database.value("SELECT detail::json ->> 'reason' FROM rvq.delivery_attempts") == "not_allowed"


def test_a_lost_lease_changes_nothing_and_is_counted(database: Database) -> None:
    tasks = Tasks(database.url)
    (number,) = tasks.finish(URL)
    with stepping(database.url) as steps:
        (delivery,) = claim(steps, 1)
        database.rows("UPDATE rvq.due_deliveries SET lease_token = gen_random_uuid()")
        before = database.row("SELECT * FROM rvq.due_deliveries")
        steps.end(delivery, attempt())
        steps.settler.step()
        assert steps.metrics.leases_lost._value.get() == 1
        assert steps.in_flight.unsettled == 0
    assert database.row("SELECT * FROM rvq.due_deliveries") == before
    assert tasks.ledger(number) == []


def test_one_that_the_database_refuses_costs_the_others_nothing(database: Database) -> None:
    tasks = Tasks(database.url)
    tasks.finish(URL, 3)
    with stepping(database.url) as steps:
        good, bad, other = claim(steps, 3)
        steps.end(good, attempt())
        steps.end(bad, attempt("http_error", 100_000_000))
        steps.end(other, attempt())
        steps.settler.step()
        assert steps.in_flight.unsettled == 0
    assert tasks.ledger(good.id) == tasks.ledger(other.id) == [(1, "delivered", "delivered")]
    assert tasks.ledger(bad.id) == [(1, "http_error", "pending")]


def test_while_the_database_is_away_results_are_kept_and_recorded_when_it_is_back(
    own_cluster: Cluster,
) -> None:
    url = own_cluster.url("rvq")
    tasks = Tasks(url)
    (number,) = tasks.finish(URL)
    with stepping(url) as steps:
        (delivery,) = claim(steps, 1)
        steps.end(delivery, attempt())
        port = own_cluster.running.port if own_cluster.running else 0
        own_cluster.stop()
        for _ in range(3):
            with pytest.raises(DatabaseError):
                steps.settler.step()
        assert steps.in_flight.unsettled == 1
        Cluster(own_cluster.folder, version=own_cluster.install.version, port=port).start()
        wait_until(lambda: works(steps), "the pool has a connection again")
    assert tasks.ledger(number) == [(1, "delivered", "delivered")]


def works(steps: Steps) -> bool:
    try:
        steps.settler.step()
    except DatabaseError:
        return False
    return True


def test_once_the_lease_is_certainly_lost_the_result_is_given_up(own_cluster: Cluster) -> None:
    url = own_cluster.url("rvq")
    Tasks(url).finish(URL)
    with stepping(url, lease=Lease(0.0, 0.0)) as steps:
        (delivery,) = steps.claim()
        own_cluster.stop()
        steps.end(delivery, attempt())
        steps.settler.step()
        assert steps.in_flight.unsettled == 0
        assert steps.metrics.leases_lost._value.get() == 1


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_of_two_leases_of_one_delivery_the_newer_is_recorded_and_the_older_counts_as_lost(
    first_ends_first: bool, database: Database
) -> None:
    tasks = Tasks(database.url)
    (number,) = tasks.finish(URL)
    with stepping(database.url) as steps:
        (older,) = claim(steps, 1)
        database.rows("UPDATE rvq.due_deliveries SET lease_expires_at = rvq.clock()")
        steps.maintain("expire_delivery_leases")
        (newer,) = claim(steps, 1)
        assert (older.id, steps.in_flight.running) == (newer.id, 2)
        for delivery in (older, newer) if first_ends_first else (newer, older):
            steps.end(delivery, attempt())
        while steps.in_flight.unsettled:
            steps.settler.step()
        assert (steps.metrics.attempts, steps.metrics.leases_lost._value.get()) == (1, 1)
        assert (steps.in_flight.running, steps.in_flight.by_host()) == (0, {"one.test": 0})
        assert steps.in_flight.oldest_seconds() == 0.0
    assert tasks.ledger(number) == [(1, "unknown", "pending"), (2, "delivered", "delivered")]
