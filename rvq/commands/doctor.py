"""`rvq doctor` looks for what is wrong, and for what a new list of webhook hosts would block."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping

from app.settings import Settings, load_settings
from app.webhooks.addresses import AllowedHost
from rvq.doctor import allowlist
from rvq.doctor.examination import examine
from rvq.doctor.finding import Finding
from rvq.doctor.store import open_store
from rvq.tables import table

HELP = "look whether settings, database and dispatcher are as they should be; 1 when something is wrong"
MARKS = {"ok": "ok", "advice": "advice", "wrong": "WRONG"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="advice counts as wrong")
    parser.add_argument("--json", action="store_true", help="print a JSON array of {level, what, text}")
    parser.add_argument(
        "--allowlist",
        metavar="NEW",
        help="only say which stored addresses this APP_WEBHOOK_ALLOWED_HOSTS would block; 1 when any",
    )


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if arguments.allowlist is not None:
        hosts = allowlist.parse(arguments.allowlist)
        return _say_what_is_blocked(load_settings(environ), hosts)
    settings = load_settings(environ)
    with open_store(settings.database_url) as store:
        findings = list(examine(store, settings))
    if arguments.json:
        print(json.dumps([dataclasses.asdict(one) for one in findings], indent=2))
    else:
        print(table(("", "what", "found"), [(MARKS[one.level], one.what, one.text) for one in findings]))
    return _status(findings, strict=arguments.strict)


def _status(findings: list[Finding], *, strict: bool) -> int:
    bad = ("wrong", "advice") if strict else ("wrong",)
    return int(any(finding.level in bad for finding in findings))


def _say_what_is_blocked(settings: Settings, hosts: tuple[AllowedHost, ...]) -> int:
    with open_store(settings.database_url) as store:
        stored = store.stored_urls()
    found = allowlist.blocked(stored, hosts)
    if not found:
        print(f"nothing: all {len(stored)} addresses that something is still to be sent to are allowed")
        return 0
    head = ("addresses", "open tasks", "due deliveries", "why", "for example")
    rows = [(one.addresses, one.tasks, one.deliveries, one.reason, one.example) for one in found]
    print(table(head, rows))
    return 1
