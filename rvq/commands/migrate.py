"""`rvq migrate` brings the database's schema up to this release, and grants roles what they need."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from app.db.migrations import migrate
from app.db.rights import PARTS
from app.db.server import record_server
from app.settings import load_settings

HELP = "bring the schema of the database at APP_DATABASE_URL up to this release"
GRANT_HELP = (
    "the role that the API or the dispatcher connects as: it gets what that part needs in the schema, and "
    "loses what is more, now and at each later migration; `PART=` takes it from all. May be repeated"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grant", metavar="PART=ROLE[,ROLE]", action="append", type=_grant, default=[], help=GRANT_HELP
    )


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    grants: dict[str, list[str]] = {}
    for part, roles in arguments.grant:
        grants.setdefault(part, []).extend(roles)
    database_url = load_settings(environ).database_url
    report = migrate(database_url, grants=grants)
    for name in report.migrations:
        print(f"applied {name}")
    if report.functions:
        print(f"replaced {len(report.functions)} functions")
    if report.dropped:
        print("dropped " + ", ".join(report.dropped))
    for statement in report.grants:
        print(statement)
    print("the schema is up to date")
    if changed := record_server(database_url):
        print(changed)
    return 0


def _grant(text: str) -> tuple[str, list[str]]:
    """Parse `api=rvq_api`; argparse shows the text of an ArgumentTypeError."""
    part, equals, roles = text.partition("=")
    if part not in PARTS or not equals:
        raise argparse.ArgumentTypeError(f"must be {' or '.join(f'{part}=ROLE' for part in PARTS)}")
    return part, [role for role in roles.split(",") if role]
