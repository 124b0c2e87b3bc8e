"""A connection that does not come about: PostgreSQL's reason, what to do, and whether waiting may help."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg2
import pytest

from app.db import DatabaseUnavailable, DatabaseUnfit, connect
from app.db.refusals import explain
from rvq.embedded import Cluster, throwaway_cluster
from tests.support.roles import execute

SETUP = (
    "CREATE ROLE nobody NOLOGIN PASSWORD 'word'",
    "CREATE ROLE full_role LOGIN PASSWORD 'word' CONNECTION LIMIT 0",
    "CREATE ROLE plain LOGIN PASSWORD 'word'",
    "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC",
    "CREATE DATABASE closed ALLOW_CONNECTIONS false",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server whose pg_hba.conf turns away the role `rejected`, and trusts nobody."""
    with throwaway_cluster() as cluster:
        for statement in SETUP:
            execute(cluster.url(), statement)
        file = cluster.data / "pg_hba.conf"
        rules = "host all rejected all reject\nhost rvq all 127.0.0.1/32 trust\n"
        file.write_text(rules + file.read_text())
        execute(cluster.url(), "SELECT pg_reload_conf()")
        yield cluster


def refusal(url: str) -> DatabaseUnavailable:
    with pytest.raises(DatabaseUnavailable) as raised:
        connect(url, "rvq-test").close()
    return raised.value


def url(cluster: Cluster, *, user: str = "", password: str = "", database: str = "postgres") -> str:
    parts = urlsplit(cluster.url())
    login = f"{user or parts.username}:{password or parts.password}"
    return f"postgresql://{login}@127.0.0.1:{parts.port}/{database}"


LASTING = {
    "a wrong password": (
        {"password": "wrong-word"},
        "password authentication failed",
        "check user and password",
    ),
    "a role that is not there, whom the server trusts": (
        {"user": "missing", "database": "rvq"},
        'role "missing" does not exist',
        "CREATE ROLE",
    ),
    "a role that may not log in": (
        {"user": "nobody", "database": "rvq"},
        'role "nobody" is not permitted to log in',
        "ALTER ROLE",
    ),
    "a database that is not there": ({"database": "nowhere"}, '"nowhere" does not exist', "CREATE DATABASE"),
    "a database that the role may not connect to": (
        {"user": "plain", "password": "word"},
        "User does not have CONNECT privilege",
        "GRANT CONNECT",
    ),
    "a database that takes nobody": ({"database": "closed"}, "not currently accepting", "ALLOW_CONNECTIONS"),
    "a role that pg_hba.conf rejects": (
        {"user": "rejected"},
        "pg_hba.conf rejects connection",
        "let pg_hba.conf",
    ),
    "TLS that the server does not speak": (
        {"database": "postgres?sslmode=require"},
        "server does not support SSL, but SSL was required",
        "make sslmode",
    ),
    "a certificate that is not there": (
        {"database": "postgres?sslmode=verify-full&sslrootcert=/nowhere"},
        "SSL",
        "make sslmode",
    ),
    "a mode of TLS that does not exist": (
        {"database": "postgres?sslmode=maybe"},
        "invalid sslmode value",
        "sslmode",
    ),
    "an option that PostgreSQL does not know": (
        {"database": "postgres?options=-c%20nonsense%3D1"},
        'unrecognized configuration parameter "nonsense"',
        "`options`",
    ),
}
PASSING = {
    "too many connections of the role": (
        {"user": "full_role", "password": "word", "database": "rvq"},
        'too many connections for role "full_role"',
        "raise max_connections",
    ),
    "a session that must be on a standby": (
        {"database": "postgres?target_session_attrs=standby"},
        "server is not in hot standby mode",
        "",
    ),
}


@pytest.mark.parametrize("name", LASTING)
def test_what_only_a_change_mends_is_unfit_and_says_what_to_change(cluster: Cluster, name: str) -> None:
    changes, reason, advice = LASTING[name]
    error = refusal(url(cluster, **changes))
    assert isinstance(error, DatabaseUnfit)
    assert reason in str(error)
    assert advice in str(error).partition("What to do: ")[2]
    assert changes.get("password", "none given") not in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_waited_for(cluster: Cluster, name: str) -> None:
    changes, reason, advice = PASSING[name]
    error = refusal(url(cluster, **changes))
    assert not isinstance(error, DatabaseUnfit)
    assert reason in str(error)
    assert advice in str(error)


def test_a_full_server_says_so_and_is_waited_for() -> None:
    with throwaway_cluster(settings={"max_connections": 5, "superuser_reserved_connections": 1}) as cluster:
        execute(cluster.url(), "CREATE ROLE plain LOGIN PASSWORD 'word'")
        address = url(cluster, user="plain", password="word")
        held = [connect(address, "rvq-test") for _ in range(4)]
        error = refusal(address)
        for connection in held:
            connection.close()
    assert not isinstance(error, DatabaseUnfit)
    assert re.search("connection slots|too many clients", str(error))


def test_a_port_where_nobody_listens_and_a_name_that_does_not_resolve_are_waited_for() -> None:
    for address, reason in (
        ("127.0.0.1:1", "port 1 failed: Connection refused Is the server running on that host"),
        ("no-such-host.invalid", 'could not translate host name "no-such-host.invalid" to address'),
        ("%2Fnowhere", 'connection to server on socket "/nowhere/.s.PGSQL.5432" failed: No such file'),
    ):
        error = refusal(f"postgresql://rvq:never-shown@{address}/rvq")
        assert not isinstance(error, DatabaseUnfit)
        assert reason in str(error)
        assert "What to do: " in str(error)
        assert "never-shown" not in str(error)


def test_another_program_at_the_port_is_named_as_the_likely_cause() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(4096)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        port = listener.getsockname()[1]
        error = refusal(f"postgresql://rvq:x@127.0.0.1:{port}/rvq?sslmode=disable")
    assert not isinstance(error, DatabaseUnfit)
    assert "something else than PostgreSQL seems to listen there" in str(error)


def test_one_of_several_hosts_that_may_yet_come_is_waited_for_and_two_addresses_of_one_host_are_not() -> None:
    refused = 'connection to server at "{}" (::1), port 1 failed: Connection refused\n'
    missing = 'connection to server at "{}" (127.0.0.1), port 1 failed: FATAL:  database "x" does not exist\n'
    waits = explain(psycopg2.OperationalError(refused.format("a") + missing.format("b")))
    lasts = explain(psycopg2.OperationalError(refused.format("localhost") + missing.format("localhost")))
    assert (isinstance(waits, DatabaseUnfit), isinstance(lasts, DatabaseUnfit)) == (False, True)
    assert "What to do: CREATE DATABASE" in str(waits)
    assert "What to do: CREATE DATABASE" in str(lasts)


def test_a_reason_in_another_language_is_shown_and_waited_for() -> None:
    text = (
        'connection to server at "h" (::1), port 1 failed: FATAL:  Passwort-Authentifizierung fehlgeschlagen'
    )
    error = explain(psycopg2.OperationalError(text))
    assert not isinstance(error, DatabaseUnfit)
    assert "Passwort-Authentifizierung fehlgeschlagen" in str(error)
