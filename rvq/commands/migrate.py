"""`rvq migrate` brings the database's schema up to this release."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from app.db.migrations import migrate
from app.db.server import record_server
from app.settings import load_settings

HELP = "bring the schema of the database at APP_DATABASE_URL up to this release"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add none: everything is in the environment."""


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    database_url = load_settings(environ).database_url
    report = migrate(database_url)
    for name in report.migrations:
        print(f"applied {name}")
    if report.functions:
        print(f"replaced {len(report.functions)} functions")
    if report.dropped:
        print("dropped " + ", ".join(report.dropped))
    print("the schema is up to date")
    if changed := record_server(database_url):
        print(changed)
    return 0
