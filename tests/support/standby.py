"""A streaming standby of a cluster, made by pg_basebackup, and an address that moves between servers."""

from __future__ import annotations

import contextlib
import selectors
import shutil
import socket
import threading
from collections.abc import Iterator

import psycopg2

from rvq.embedded import Cluster
from tests.support.concurrency import wait_until

STANDBY = "standby"


class Standby(Cluster):
    """It begins as a copy of `primary` and follows it until it is promoted."""

    def __init__(self, primary: Cluster, name: str = "standby") -> None:
        super().__init__(
            primary.folder.with_name(name), version=primary.install.version, settings=primary.settings
        )
        self._primary = primary

    def promote(self) -> None:
        self._execute("SELECT pg_promote(true)")

    def _init(self) -> None:
        copy = self._account.run(
            [
                self.install.program("pg_basebackup"),
                "--dbname",
                self._primary.url(),
                "--pgdata",
                self.data,
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ]
        )
        assert copy.returncode == 0, copy.stderr
        shutil.copy2(self._primary.folder / "password", self.folder / "password")

    def _ready(self) -> bool:
        """A standby that takes connections says so in other words than a primary."""
        server = self.running
        return super()._ready() or (server is not None and server.status == STANDBY)


@contextlib.contextmanager
def standby_of(primary: Cluster) -> Iterator[Standby]:
    """A running standby, which begins with all that the primary has; its folder goes with the primary's."""
    standby = Standby(primary)
    try:
        standby.start()
        yield standby
    finally:
        standby.stop(deadline_seconds=5)


def wait_until_caught_up(primary: Cluster, standby: Standby) -> None:
    position = _ask(primary, "SELECT pg_current_wal_flush_lsn()::text")
    caught_up = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
    wait_until(lambda: _ask(standby, caught_up), "the standby has replayed what the primary wrote")


def _ask(cluster: Cluster, statement: str) -> object:
    connection = psycopg2.connect(cluster.url())
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
        return row and row[0]


class MovingAddress:
    """A port that leads to a server's, and later to another's. What is connected stays where it is."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self._sockets += [client, server]
                threading.Thread(target=_carry, args=(client, server), daemon=True).start()


def _carry(client: socket.socket, server: socket.socket) -> None:
    """Hand on what either side sends until one of them ends."""
    with contextlib.suppress(OSError, ValueError), selectors.DefaultSelector() as selector:
        for one, other in ((client, server), (server, client)):
            selector.register(one, selectors.EVENT_READ, other)
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(65536)
                if not data:
                    client.close()
                    server.close()
                    return
                key.data.sendall(data)
