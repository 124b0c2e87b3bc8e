"""The synchronous standby goes away under load: nothing piles up, nothing is lost or doubled, all heals."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter

import psycopg2

from app.db import Connection
from rvq.embedded import Cluster
from tests.dispatcher.receiver import Receiver
from tests.e2e.load import partners
from tests.e2e.rig import SMALL, running
from tests.e2e.test_life_of_processes import is_drained
from tests.support.concurrency import wait_until

BUDGETS = {"rvq-api": int(SMALL["APP_DB_POOL"]), "rvq-dispatcher": int(SMALL["DISPATCHER_DB_POOL"])}


class Watched(threading.Thread):
    """Looks all the time how many backends each program has; `most` is the most that were seen."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.most: Counter[str] = Counter()
        self._connection = connected(url)
        self._ending = threading.Event()

    def run(self) -> None:
        sql = "SELECT application_name, count(*) FROM pg_stat_activity GROUP BY 1"
        with contextlib.closing(self._connection), self._connection.cursor() as cursor:
            while not self._ending.wait(0.01):
                cursor.execute(sql)
                for name, number in cursor.fetchall():
                    self.most[name] = max(self.most[name], number)

    def stop(self) -> None:
        self._ending.set()
        self.join()


def connected(url: str) -> Connection:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    return connection


def wait_for_standbys(url: str, names: str) -> None:
    with contextlib.closing(connected(url)) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER SYSTEM SET synchronous_standby_names = %s", (names,))
        cursor.execute("SELECT pg_reload_conf()")


def test_all_heals_by_itself_when_the_standby_was_away_under_load(
    own_cluster: Cluster, receiver: Receiver
) -> None:
    url = own_cluster.url("rvq")
    with running(url, receiver.host) as rvq:
        rvq.start_dispatcher()
        rvq.start_worker("Echo")
        watched = Watched(url)
        watched.start()
        with partners(rvq, 6, patient=True, webhook_url=receiver.url()) as load:
            load.wait_for(20)
            wait_for_standbys(url, "ghost")
            refused = "writes are refused until a commit goes through"
            logs = [rvq.folder / "api.log", rvq.folder / "dispatcher.log"]
            wait_until(lambda: all(refused in log.read_text() for log in logs), "both find out", 90)
            wait_until(lambda: rvq.call("GET", "/readyz").status == 503, "readiness tells", 60)
            wait_until(lambda: rvq.call("GET", "/v1/tasks").status == 200, "reads go on", 60)
            wait_for_standbys(url, "")
            load.wait_for(load.created + 20)
        wait_until(lambda: is_drained(rvq), "everything is done", 90)
        watched.stop()
        assert {name: watched.most[name] for name in BUDGETS} == BUDGETS
        assert set(load.statuses) <= {200, 201, 503}
        tasks = rvq.pages("/v1/tasks")
        assert {task["id"] for task in tasks} == set(load.tasks.values())
        assert {task["status"] for task in tasks} == {"succeeded"}
        assert set(Counter(receiver.ids()).values()) == {1}
        assert len(receiver.ids()) == len(tasks)
