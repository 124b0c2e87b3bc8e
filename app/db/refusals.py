"""Why no connection came about, in PostgreSQL's own words, and what to do about it.

libpq gives no SQLSTATE here, only text, in the language of the server. What is not recognised is shown as it
is and waited out: only what is known to need a change ends a program that could wait.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg2

from app.db.errors import DatabaseUnavailable, DatabaseUnfit

URL = "APP_DATABASE_URL"
HBA = "let pg_hba.conf on the server admit this role, database and address, and reload it"
LOGIN = f"check user and password in {URL}"
TLS = f"make sslmode and the certificates in {URL} agree with the server"
OTHER_PROGRAM = f"something else than PostgreSQL seems to listen there: check host and port in {URL}"
FULL = "raise max_connections or the limit, or lower APP_DB_POOL and DISPATCHER_DB_POOL"


@dataclass(frozen=True)
class Refusal:
    """A kind of refusal; `passes` says that waiting may help."""

    pattern: str
    advice: str
    passes: bool = False


REFUSALS: Sequence[Refusal] = (
    Refusal("password authentication failed|no password supplied|authentication failed for user", LOGIN),
    Refusal("role .* does not exist|no such user", f"CREATE ROLE ... LOGIN on the server, or {LOGIN}"),
    Refusal("is not permitted to log in", "ALTER ROLE ... LOGIN on the server, or name another role"),
    Refusal(
        "database .* does not exist|no such database",
        f"CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0 on the server, or mend its name in {URL}",
    ),
    Refusal("permission denied for database", "GRANT CONNECT ON DATABASE ... TO the role"),
    Refusal("not currently accepting connections", "ALTER DATABASE ... ALLOW_CONNECTIONS true"),
    Refusal("pg_hba.conf", HBA),
    Refusal(
        "SSL was required|SSL required|root certificate|certificate|private key|encryption required"
        "|channel binding|tlsv1|unsupported protocol|no protocols available|sslmode",
        TLS,
    ),
    Refusal(
        "unrecognized configuration parameter|invalid value for parameter|permission denied to set parameter",
        f"mend `options` in {URL}, or PGOPTIONS",
    ),
    Refusal("invalid .*(value|port number|URI|option)|could not parse", f"mend {URL}"),
    Refusal("wrong version number|invalid response|but received|unsupported frontend", OTHER_PROGRAM, True),
    Refusal("too many (connections|clients)|connection slots|no more connections", FULL, True),
    Refusal("refused|No such file", f"is the server running, and are host and port in {URL} right?", True),
    Refusal("could not translate host name|Name or service", f"check the host in {URL}, and the DNS", True),
    Refusal(
        "timeout expired|timed out|No route to host|unreachable", "check host, network and firewall", True
    ),
)


def explain(error: psycopg2.Error) -> DatabaseUnavailable:
    """Return what to raise for a connection that did not come about: DatabaseUnfit if it needs a change.

    Several hosts and addresses may have been tried. If one of the hosts may yet answer, it is waited for.
    """
    reasons = _reasons(str(error))
    found = [(reason, _refusal(reason)) for reason in reasons]
    known = [refusal for _, refusal in found if refusal is not None]
    lasting = {_host(reason) for reason, refusal in found if refusal is not None and not refusal.passes}
    is_unfit = bool(reasons) and all(_host(reason) in lasting for reason in reasons)
    text = "; ".join(reasons) or "no answer from the database"
    advised = next((one for one in known if not one.passes), known[0] if known else None)
    if advised is not None:
        text += f". What to do: {advised.advice}"
    return DatabaseUnfit(text) if is_unfit else DatabaseUnavailable(text)


def _refusal(reason: str) -> Refusal | None:
    return next((one for one in REFUSALS if re.search(one.pattern, reason)), None)


def _reasons(text: str) -> list[str]:
    """Return a line for each address that was tried; what a line goes on with is joined to it."""
    reasons: list[str] = []
    for line in text.splitlines():
        if reasons and re.match(r"\s|DETAIL:|HINT:", line):
            reasons[-1] = f"{reasons[-1]} {line.strip()}"
        elif line.strip():
            reasons.append(line.strip())
    return list(dict.fromkeys(re.sub(r"\s+", " ", reason) for reason in reasons))


def _host(reason: str) -> str:
    named = re.match(r'connection to server (?:at|on socket) "([^"]*)"', reason)
    return named.group(1) if named else ""
