"""A dispatcher that holds a delivery under two leases: an old one that it could not settle, and a new one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg2

from rvq.embedded import Cluster
from tests.dispatcher.manager import Manager
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.rig import Tasks, environment, event_id, running
from tests.support.concurrency import wait_until


@contextlib.contextmanager
def no_records(url: str) -> Iterator[None]:
    """Nothing can be settled: each try waits for a lock until it is given up. All else goes on."""
    with contextlib.closing(psycopg2.connect(url)) as locker, locker.cursor() as cursor:
        cursor.execute("LOCK TABLE rvq.counter_deltas IN SHARE MODE")
        yield


def test_a_record_that_hung_beyond_its_lease_stops_nothing_and_leaves_nothing_in_flight(
    own_cluster: Cluster, manager: Manager, address: str
) -> None:
    url = own_cluster.url("rvq")
    tasks = Tasks(url)
    with (
        Receiver() as receiver,
        running(environment(url, receiver.host, NOTIFY_SOCKET=address)) as dispatcher,
    ):
        receiver.hold.clear()
        (number,) = tasks.finish(receiver.url())
        wait_until(lambda: receiver.received, "it was sent")
        with no_records(url):
            receiver.hold.set()
            own_cluster.move_clock(60)
            wait_until(lambda: len(receiver.received) == 2, "it was sent again, under another lease", 60)
        (later,) = tasks.finish(receiver.url())
        tasks.wait_until_done()
        wait_until(lambda: "running 0, unsettled 0" in manager.told()[-1], "nothing is in flight")
        assert "a step failed" not in dispatcher.log
        assert dispatcher.stop() == 0
    assert receiver.ids() == [event_id(number)] * 2 + [event_id(later)]
    assert tasks.ledger(number) == [(1, "unknown", "pending"), (2, "delivered", "delivered")]
