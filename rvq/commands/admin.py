"""`rvq admin` asks a running API for what only an administrator may do."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from rvq.errors import CommandError

HELP = "administer a running RVQ at RVQ_URL with the key APP_ADMIN_TOKEN"
SHOWN = 50
# An audit of a large history takes its time: the API gives it up after five minutes.
READ_SECONDS = 330


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print what the API answered, a document a line")
    parser.add_argument(
        "--ca", metavar="FILE", help="certificates to check the API's by, instead of the usual ones"
    )
    names = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    reset = names.add_parser("reset", help="empty everything")
    reset.add_argument("--confirm", metavar="reset", help="the word `reset`")
    for name, does in (("retry", "run what failed of a task again"), ("cancel", "cancel a task")):
        names.add_parser(name, help=does).add_argument("task", metavar="TASK")
    queue = names.add_parser("queue", help="look at a queue, pause or resume it")
    queue.add_argument("queue", metavar="NAME")
    pause = queue.add_mutually_exclusive_group()
    pause.add_argument(
        "--pause", dest="paused", action="store_const", const=True, help="hand no sub_task out"
    )
    pause.add_argument("--resume", dest="paused", action="store_const", const=False)
    _add_deliveries(names.add_parser("deliveries", help="find deliveries, send them again"))
    audit = names.add_parser("audit", help="compare every counter with the truth")
    audit.add_argument("--repair", action="store_true", help="set those that differ to the truth")
    audit.add_argument("--all", action="store_true", help="show the right ones too")
    names.add_parser("stats", help="tasks, sub_tasks and deliveries by status")
    ping = names.add_parser("ping", help="send a signed test event, with the dispatcher's settings")
    ping.add_argument("url", metavar="URL")


def _add_deliveries(parser: argparse.ArgumentParser) -> None:
    names = parser.add_subparsers(metavar="WHAT", required=True, dest="what")
    found = names.add_parser("list", help="newest first")
    found.add_argument("--limit", type=_count, default=SHOWN, help=f"how many (default: {SHOWN})")
    one = names.add_parser("redeliver", help="send these again, under the same webhook-id")
    one.add_argument("delivery", metavar="DELIVERY", nargs="+")
    many = names.add_parser("bulk", help="send all that match again; by default the dead ones")
    many.add_argument("--dry-run", action="store_true", help="count them only")
    for which in (found, many):
        which.add_argument("--status", choices=("pending", "delivered", "dead"))
        which.add_argument("--host", metavar="NAME:PORT")
        which.add_argument("--since", metavar="TIME", help="last tried since, RFC 3339")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    # Imported here: they are slow, and every other command would wait for them.
    if arguments.action == "ping":
        from rvq.admin.ping import ping

        return ping(arguments.url, environ, as_json=arguments.json)
    from rvq.admin import actions
    from rvq.client import Client

    name = arguments.action
    if name == "deliveries":
        which = {"list": "list_deliveries", "redeliver": "redeliver", "bulk": "redeliver_many"}
        name = which[arguments.what]
    client = Client(_url(environ), _token(environ), READ_SECONDS, _bundle(arguments.ca))
    return int(getattr(actions, name)(client, arguments))


def _url(environ: Mapping[str, str]) -> str:
    url = environ.get("RVQ_URL", "").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise CommandError(
            "RVQ_URL must be the http:// or https:// address of a running API, as `rvq up` prints it"
        )
    return url


def _token(environ: Mapping[str, str]) -> str:
    """Return the first of the keys that are valid while they are rotated."""
    token = environ.get("APP_ADMIN_TOKEN", "").partition(",")[0].strip()
    if not token:
        raise CommandError("APP_ADMIN_TOKEN is not set")
    return token


def _bundle(file: str | None) -> str | None:
    if file is not None and not os.path.isfile(file):
        raise CommandError(f"--ca: there is no file {file}")
    return file


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
