"""Real dispatchers, as processes or step by step, and finished tasks for them to tell about."""

from __future__ import annotations

import base64
import contextlib
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg2

from app.settings import Settings, load_settings
from rvq.local.settings import local_settings
from rvq.local.stack import launch_dispatcher
from tests.support.concurrency import wait_until
from tests.support.creating import CREATE, NewTask, create_params

SECRET = "whsec_" + base64.b64encode(b"first secret of thirty-two bytes").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"other secret of thirty-two bytes").decode()


def environment(database_url: str, *hosts: str, **changes: str) -> dict[str, str]:
    """Return the settings of a dispatcher that may POST to these receivers; "" takes a setting away."""
    small = {"APP_WEBHOOK_SECRET": SECRET, "DISPATCHER_DB_POOL": "4", "DISPATCHER_THREADS": "8"}
    return local_settings(database_url, *(f"http://{host}" for host in hosts), **{**small, **changes})


def settings(database_url: str, *hosts: str, **changes: str) -> Settings:
    return load_settings(environment(database_url, *hosts, **changes))


class Dispatcher:
    """A dispatcher that runs as in production, but that nobody waits for its READY."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._log = folder / "dispatcher.log"
        self.process = launch_dispatcher(environ, self._log, notify=False)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_until_ready(self) -> None:
        self.process.wait_until(lambda: ": ready" in self.log, 30)

    def signal(self, number: signal.Signals) -> None:
        self.process.signal(number)

    def wait(self, seconds: float) -> int:
        """Return the exit status of a process that ends by itself, or was told to."""
        return self.process.wait(seconds)

    def stop(self) -> int:
        """Send SIGTERM; return the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(30)

    def kill(self) -> None:
        self.process.kill()


@contextlib.contextmanager
def launched(environ: Mapping[str, str]) -> Iterator[Dispatcher]:
    """Start a dispatcher process; it is killed at the end if it still runs."""
    with tempfile.TemporaryDirectory() as folder:
        dispatcher = Dispatcher(environ, Path(folder))
        try:
            yield dispatcher
        finally:
            dispatcher.kill()
            dispatcher.process.stop()


@contextlib.contextmanager
def running(environ: Mapping[str, str]) -> Iterator[Dispatcher]:
    with launched(environ) as dispatcher:
        dispatcher.wait_until_ready()
        yield dispatcher


class Tasks:
    """Makes tasks that end, and looks at their deliveries; its connection is its own."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self.rows("SELECT rvq.create_partitions(1)")

    def rows(self, sql: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """One statement in a connection of its own, so that a restarted server is no matter."""
        connection = psycopg2.connect(self._url)
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []

    def value(self, sql: str, params: tuple[Any, ...] = ()) -> Any:
        return self.rows(sql, params)[0][0]

    def finish(self, url: str | None, count: int = 1, queue: str = "default") -> list[int]:
        """That many tasks of one sub_task each, succeeded; their ids, which are their first events' too."""
        host = url.split("/")[2] if url else None
        new = NewTask(max_attempts=[1], queue=queue, webhook=url, host=host)
        made = self.rows(CREATE, create_params(*[new] * count))
        claimed = self.rows(
            "SELECT id, lease_token::text FROM rvq.claim_sub_tasks('{w}', ARRAY[%s], 60, ARRAY[%s])",
            (count, queue),
        )
        nothing = [None] * count
        self.rows(
            "SELECT rvq.complete_sub_tasks("
            "%s, %s::bigint[], %s::uuid[], %s, %s, %s::text[], %s, %s::float8[])",
            (
                ["w"] * count,
                *map(list, zip(*claimed, strict=True)),
                [True] * count,
                ["1"] * count,
                nothing,
                [True] * count,
                nothing,
            ),
        )
        return [row[1] for row in made]

    def create(
        self,
        sub_tasks: int = 1,
        url: str | None = None,
        policy: str = "all",
        not_before_seconds: float | None = None,
        deadline_seconds: float | None = None,
    ) -> int:
        """A task with sub_tasks of one attempt each, none of them claimed; its id."""
        start = self.value("SELECT rvq.clock() + make_interval(secs => %s)", (not_before_seconds,))
        new = NewTask(
            ["1"] * sub_tasks,
            [1] * sub_tasks,
            webhook=url,
            host=url and url.split("/")[2],
            not_before=start,
            policy=policy,
            deadline=deadline_seconds,
        )
        return int(self.rows(CREATE, create_params(new))[0][1])

    def fail_one(self) -> None:
        """A worker claims a sub_task and reports a final failure."""
        self.rows(
            "SELECT rvq.complete_sub_tasks('{w}', ARRAY[c.id], ARRAY[c.lease_token], ARRAY[false],"
            " ARRAY[NULL::text], ARRAY['{}'], ARRAY[false], ARRAY[NULL::float8])"
            " FROM rvq.claim_sub_tasks('{w}', '{1}', 60, ARRAY['default']) AS c"
        )

    def pending(self) -> int:
        return int(self.value("SELECT count(*) FROM rvq.due_deliveries"))

    def ledger(self, event_id: int) -> list[tuple[int, str, str]]:
        """(attempt, outcome, status after it) of each attempt."""
        rows = self.rows(
            "SELECT attempt, outcome, status FROM rvq.delivery_attempts WHERE id = %s ORDER BY attempt",
            (event_id,),
        )
        return [(attempt, outcome, status) for attempt, outcome, status in rows]

    def wait_until_tried(self, count: int) -> None:
        """Until that many attempts are recorded."""
        attempts = "SELECT count(*) FROM rvq.delivery_attempts"
        wait_until(lambda: self.value(attempts) >= count, f"{count} attempts are recorded", 30)

    def wait_until_done(self, seconds: float = 30) -> None:
        wait_until(lambda: self.pending() == 0, "every delivery has ended", seconds)


def event_id(number: int) -> str:
    return f"evt_{number:016x}"
