"""A database with three roles, none of them a superuser: the schema's owner, the API's, the dispatcher's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psycopg2

from tests.support.server import Server

PASSWORD = "a-word-that-is-never-shown"


@dataclass(frozen=True)
class Roles:
    """The names of the roles and the URLs with which they connect; `admin_url` is a superuser's."""

    admin_url: str
    owner: str
    api: str
    dispatcher: str

    @property
    def owner_url(self) -> str:
        return as_role(self.admin_url, self.owner)

    @property
    def api_url(self) -> str:
        return as_role(self.admin_url, self.api)

    @property
    def dispatcher_url(self) -> str:
        return as_role(self.admin_url, self.dispatcher)

    @property
    def grants(self) -> dict[str, list[str]]:
        return {"api": [self.api], "dispatcher": [self.dispatcher]}


def as_role(url: str, role: str, password: str = PASSWORD) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}:{password}@{parts.netloc.rpartition('@')[2]}"))


@contextlib.contextmanager
def three_roles(server: Server, name: str) -> Iterator[Roles]:
    """Make the roles and a database of the owner's, with nothing in it; drop all of them at the end."""
    roles = [f"{name}_{part}" for part in ("owner", "api", "dispatcher")]
    server.drop_database(name)
    for role in roles:
        execute(server.admin_url, f'DROP ROLE IF EXISTS "{role}"')
        execute(server.admin_url, f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{PASSWORD}'")
    url = server.create_database(name, options=f'OWNER "{roles[0]}"')
    try:
        yield Roles(url, *roles)
    finally:
        server.drop_database(name)
        for role in roles:
            execute(server.admin_url, f'DROP ROLE "{role}"')


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    """Run one statement in a connection of its own, in autocommit; return its rows, if it has any."""
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []
