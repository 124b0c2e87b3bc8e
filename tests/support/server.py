"""The PostgreSQL server that tests run on: an embedded one, or the one that APP_DATABASE_URL names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psycopg2

from app.db.migrations import migrate
from rvq.embedded import throwaway_cluster

VERSION = os.environ.get("RVQ_TEST_POSTGRES", "16")


@dataclass(frozen=True)
class Server:
    """A server on which we may create databases; `prefix` keeps runs on one server apart."""

    admin_url: str
    prefix: str

    @property
    def template(self) -> str:
        """A migrated, empty database that nobody connects to."""
        return f"{self.prefix}_template"

    def url(self, database: str) -> str:
        return urlunsplit(urlsplit(self.admin_url)._replace(path=f"/{database}"))

    def create_database(self, name: str, template: str = "template0", options: str = "") -> str:
        """Made anew; returns its URL."""
        self.drop_database(name)
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {options}')
        return self.url(name)

    def drop_database(self, name: str) -> None:
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _execute(self, statement: str) -> None:
        connection = psycopg2.connect(self.admin_url)
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(statement)


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """The server of a whole test run, with the migrated template in it."""
    with _admin_url() as admin_url:
        server = Server(admin_url, f"rvq_test_{os.getpid()}")
        url = server.create_database(server.template)
        try:
            migrate(url)
            _make_partitions(url)
            yield server
        finally:
            server.drop_database(server.template)


def _make_partitions(url: str) -> None:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT rvq.create_partitions(7)")


@contextlib.contextmanager
def _admin_url() -> Iterator[str]:
    given = os.environ.get("APP_DATABASE_URL")
    if given:
        yield given
    else:
        with throwaway_cluster(version=VERSION) as cluster:
            yield cluster.url(tcp=False)
