"""Real dispatchers, as processes or step by step, and finished tasks for them to tell about."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import psycopg2

from app.settings import Settings, load_settings
from tests.support.concurrency import wait_until
from tests.support.creating import CREATE, NewTask, create_params
from tests.support.source import ROOT

SECRET = "whsec_" + base64.b64encode(b"first secret of thirty-two bytes").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"other secret of thirty-two bytes").decode()


def environment(database_url: str, *hosts: str, **changes: str) -> dict[str, str]:
    """The settings of a dispatcher that may POST to these receivers on loopback; "" takes one away."""
    settings = {
        "APP_DATABASE_URL": database_url,
        "APP_WEBHOOK_SECRET": SECRET,
        "APP_WEBHOOK_ALLOWED_HOSTS": ", ".join(f"http://{host}" for host in hosts) or "hooks.example",
        "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.0/8",
        "DISPATCHER_DB_POOL": "4",
        "DISPATCHER_THREADS": "8",
        "APP_LOG_FORMAT": "text",
        **changes,
    }
    return {name: value for name, value in settings.items() if value}


def settings(database_url: str, *hosts: str, **changes: str) -> Settings:
    return load_settings(environment(database_url, *hosts, **changes))


@dataclass
class Process:
    """A dispatcher that runs as in production."""

    popen: subprocess.Popen[bytes]
    log_file: IO[bytes]

    @property
    def log(self) -> str:
        self.log_file.seek(0)
        return self.log_file.read().decode()

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            if self.popen.poll() is not None:
                raise AssertionError(f"it ended:\n{self.log}")
            return ": ready" in self.log

        wait_until(is_ready, "the dispatcher is ready", 30)

    def send(self, number: int) -> None:
        self.popen.send_signal(number)

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        self.send(signal.SIGTERM)
        return self.popen.wait(30)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


@contextlib.contextmanager
def launched(environ: Mapping[str, str]) -> Iterator[Process]:
    """A dispatcher process; killed at the end if it still runs."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with tempfile.TemporaryFile() as log_file:
        popen = subprocess.Popen(
            [sys.executable, "-m", "dispatcher"], cwd=ROOT, env={**inherited, **environ}, stderr=log_file
        )
        process = Process(popen, log_file)
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def running(environ: Mapping[str, str]) -> Iterator[Process]:
    with launched(environ) as process:
        process.wait_until_ready()
        yield process


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

    def wait_until_done(self, seconds: float = 30) -> None:
        wait_until(lambda: self.pending() == 0, "every delivery has ended", seconds)


def event_id(number: int) -> str:
    return f"evt_{number:016x}"
