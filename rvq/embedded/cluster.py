"""One PostgreSQL data folder and the server on it: how they are made, started, adopted and stopped."""

from __future__ import annotations

import contextlib
import fcntl
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg2

from rvq.embedded.account import server_account
from rvq.embedded.errors import EmbeddedError
from rvq.embedded.installs import DEFAULT_VERSION, find_install
from rvq.embedded.postmaster import (
    READY,
    Postmaster,
    process_alive,
    remove_stale_pid_file,
    running_postmaster,
    stop_postmaster,
)
from rvq.ports import free_port
from rvq.waiting import wait_until

Setting = str | int | float
USER = "rvq"
BASE_SETTINGS: Mapping[str, Setting] = {
    "listen_addresses": "127.0.0.1",
    "max_connections": 400,
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    "log_line_prefix": "%m [%p] %a ",
}
# Both pass: another program took the port first; backends of a killed server are still going down.
PASSING_FAILURES = ("could not create any TCP/IP sockets", "pre-existing shared memory block")


class Cluster:
    """A server in `folder`, which holds `data/`, `socket/`, `password`, `server.log` and `lock`.

    Safe against crashes and against being started by several processes at once: a half-made data folder
    is made again, a server that runs already is adopted, a killed one is started again.
    `settings` are configuration parameters, written anew at each start. `port` None picks a free one.
    As a context manager it runs for the time of the block.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: int | str | Path = DEFAULT_VERSION,
        settings: Mapping[str, Setting] | None = None,
        port: int | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.install = find_install(version)
        self.settings = {**BASE_SETTINGS, **(settings or {})}
        self._wanted_port = port
        self._account = server_account()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def running(self) -> Postmaster | None:
        return running_postmaster(self.data)

    def url(self, database: str = "postgres", *, tcp: bool = True) -> str:
        """Return a URL for a superuser; `tcp` False: over the Unix socket, which costs less CPU."""
        server = self._require_running()
        password = (self.folder / "password").read_text()
        host = "127.0.0.1" if tcp else quote(str(self.folder / "socket"), safe="")
        return f"postgresql://{USER}:{password}@{host}:{server.port}/{quote(database)}"

    def start(self, deadline_seconds: float = 60) -> None:
        """Make the data folder if need be and start the server, or adopt one that runs on it already."""
        self._make_folder()
        with self._lock():
            if not self.data.exists():
                self._init()
            self._check_version()
            give_up = time.monotonic() + deadline_seconds
            while not self._try_start(give_up):
                time.sleep(0.1)

    def stop(self, deadline_seconds: float = 30) -> None:
        """Stop the server, whoever started it; at the deadline without a clean shutdown."""
        if not self.folder.exists():
            return
        with self._lock():
            server = self.running
            if server:
                stop_postmaster(server.pid, self.data, deadline_seconds)

    def create_database(self, name: str, template: str = "template0") -> None:
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')

    def ensure_database(self, name: str) -> None:
        """Create the database unless it is there already."""
        if not self._execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            self.create_database(name)

    def drop_database(self, name: str) -> None:
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def move_clock(self, seconds: float) -> None:
        """Set how far RVQ's clock is ahead, for every session, and return when it is in effect.

        A new session sees a reloaded file only after the postmaster has told all others about it.
        """
        self._write_conf("clock.conf", {"rvq.clock_offset": seconds})
        self._execute("SELECT pg_reload_conf()")
        offset = "SELECT current_setting('rvq.clock_offset', true)::float8"
        if not wait_until(lambda: self._execute(offset) == float(seconds), 10, poll_seconds=0.01):
            raise EmbeddedError("the moved clock did not take effect within 10 seconds")

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._account.give(self.folder)
        if not self._account.can_enter(self.folder):
            raise EmbeddedError(f"PostgreSQL can't run as root, and its account can't enter {self.folder}")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Let only one process at a time make, start or stop this cluster; a crash gives the lock up."""
        with (self.folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _init(self) -> None:
        """Make the data folder under another name and rename it: a crash never leaves half of one."""
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        password = self.folder / "password"
        password.write_text(secrets.token_hex(24))
        self._account.give(password)
        command: list[str | Path] = [
            self.install.program("initdb"),
            "-D",
            unfinished,
            "-U",
            USER,
            "--pwfile",
            password,
        ]
        command += ["--auth-host=scram-sha-256", "--auth-local=trust", "--no-instructions"]
        command += ["--encoding=UTF8", "--locale=C"]
        command += ["--no-sync"] if self.settings.get("fsync") == "off" else []
        made = self._account.run(command)
        if made.returncode:
            raise EmbeddedError(f"initdb failed in {self.folder}: {made.stderr.strip()}")
        with (unfinished / "postgresql.conf").open("a") as conf:
            conf.write("include_if_exists 'rvq.conf'\ninclude_if_exists 'clock.conf'\n")
        unfinished.rename(self.data)

    def _check_version(self) -> None:
        made_by = (self.data / "PG_VERSION").read_text().strip()
        if made_by != str(self.install.version):
            raise EmbeddedError(
                f"{self.data} was made by PostgreSQL {made_by}, and this is {self.install.version}: "
                "use that version, or another folder"
            )

    def _try_start(self, give_up: float) -> bool:
        """Return True when the server is ready, False when it failed for a reason that passes."""
        server = self.running
        pid = server.pid if server else self._launch()
        while not self._ready():
            if time.monotonic() > give_up:
                raise EmbeddedError(f"PostgreSQL is not ready in time; {self._last_words()}")
            if server is None and not process_alive(pid):
                if any(text in self._last_words() for text in PASSING_FAILURES):
                    return False
                raise EmbeddedError(f"PostgreSQL did not start; {self._last_words()}")
            time.sleep(0.02)
        return True

    def _launch(self) -> int:
        remove_stale_pid_file(self.data)
        sockets = self.folder / "socket"
        sockets.mkdir(exist_ok=True)
        _remove_stale_sockets(sockets)
        self._account.give(sockets)
        self.log.touch()
        self._account.give(self.log)
        # A socket's path has room for 107 bytes.
        unix = str(sockets) if len(str(sockets)) < 85 else ""
        self._write_conf("rvq.conf", {"unix_socket_directories": unix, **self.settings})
        self._write_conf("clock.conf", {})
        port = self._wanted_port or free_port()
        program = self.install.program("postgres")
        return self._account.start([program, "-D", self.data, "-p", str(port)], self.log)

    def _ready(self) -> bool:
        server = self.running
        return server is not None and server.status in READY

    def _write_conf(self, name: str, settings: Mapping[str, Setting]) -> None:
        lines = (f"{key} = '{str(value).replace(chr(39), chr(39) * 2)}'\n" for key, value in settings.items())
        file = self.data / name
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text("".join(lines))
        self._account.give(unfinished)
        unfinished.rename(file)

    def _execute(self, statement: str) -> object:
        connection = psycopg2.connect(self.url(), connect_timeout=10)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                row = cursor.fetchone() if cursor.description else None
                return row[0] if row else None
        finally:
            connection.close()

    def _require_running(self) -> Postmaster:
        server = self.running
        if server is None:
            raise EmbeddedError(f"no server runs in {self.folder}; {self._last_words()}")
        return server

    def _last_words(self) -> str:
        """Return the end of the server's log, for messages."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"the end of {self.log}:\n" + "\n".join(text.splitlines()[-12:])


def _remove_stale_sockets(folder: Path) -> None:
    """Delete what a crash left: on the same port its lock file may be taken for a live server's."""
    for file in folder.glob(".s.PGSQL.*"):
        file.unlink(missing_ok=True)
