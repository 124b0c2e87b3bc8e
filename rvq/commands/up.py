"""`rvq up`: a whole RVQ on this machine that stays, with its data, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.db.migrations import migrate
from app.settings import Settings, load_settings
from rvq.embedded import Cluster
from rvq.errors import CommandError
from rvq.local.credentials import local_credentials, write_private
from rvq.local.folders import children_lock, default_folder, only_one
from rvq.local.processes import Process
from rvq.local.stack import OUR_PREFIXES, child_environ, start_api, start_dispatcher

HELP = "run a local stack (PostgreSQL, API, dispatcher) that keeps its data and stays until Ctrl-C"
LOOK_SECONDS = 0.5
LOCAL_DEFAULTS = {
    "APP_LOG_FORMAT": "text",
    # Where a receiver on this machine is expected, so that a first webhook needs no settings.
    "APP_WEBHOOK_ALLOWED_HOSTS": "http://127.0.0.1:9000",
    "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.1/32",
}
BANNER = """
RVQ runs; Ctrl-C stops it, and its data stays in {folder}

  API          http://{bind}    documentation: http://{bind}/docs
  webhooks to  {hosts}
  processes    {processes}
  logs         {folder}/api.log and dispatcher.log
  keys         {folder}/environment, for a shell:

      set -a; . {folder}/environment; set +a
      curl -H "Authorization: Bearer $APP_PARTNER_TOKEN" $RVQ_URL/v1/stats
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="folder for data and keys (default: one of your account)")
    parser.add_argument("--postgres", default="16", help="major version, or folder of programs (default: 16)")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    folder: Path = (arguments.data or default_folder()).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    # Both, whatever we inherited: a shell's background command comes with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        stack.enter_context(only_one(folder))
        lock = stack.enter_context(children_lock(folder))
        settings = {**LOCAL_DEFAULTS, **local_credentials(folder / "settings.env"), **_given(environ)}
        if "APP_DATABASE_URL" not in settings:
            settings["APP_DATABASE_URL"] = stack.enter_context(_database(folder, arguments.postgres))
        checked = load_settings(settings)
        migrate(checked.database_url)
        children = _start(stack, child_environ(settings, environ), folder, lock)
        _write_environment(folder, settings, checked)
        print(_banner(folder, checked, children), flush=True)
        return _watch(children)


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """What the user set: it goes before what we make up."""
    return {name: value for name, value in environ.items() if name.startswith(OUR_PREFIXES)}


@contextlib.contextmanager
def _database(folder: Path, version: str) -> Iterator[str]:
    """The URL of the database in the embedded server, which runs until the end of the block."""
    cluster = Cluster(folder / "postgresql", version=version)
    cluster.start()
    try:
        cluster.ensure_database("rvq")
        yield cluster.url("rvq")
    finally:
        cluster.stop()


def _start(stack: contextlib.ExitStack, environ: Mapping[str, str], folder: Path, lock: int) -> list[Process]:
    """The API, then the dispatcher; the end of `stack` stops them in reverse order."""
    api = start_api(environ, log=folder / "api.log", pass_fds=[lock])
    stack.callback(api.stop)
    dispatcher = start_dispatcher(environ, log=folder / "dispatcher.log", pass_fds=[lock])
    stack.callback(dispatcher.stop)
    return [api, dispatcher]


def _write_environment(folder: Path, settings: Mapping[str, str], checked: Settings) -> None:
    """Everything that a shell on this machine needs to talk to the stack."""
    ours = {"RVQ_URL": f"http://{checked.bind}", "RVQ_WORKER_TOKEN": settings["APP_WORKER_TOKEN"]}
    write_private(folder / "environment", {**settings, **ours})


def _banner(folder: Path, settings: Settings, children: list[Process]) -> str:
    hosts = ", ".join(str(host) for host in settings.webhook_allowed_hosts)
    processes = ", ".join(f"{child.name} (pid {child.pid})" for child in children)
    return BANNER.format(folder=folder, bind=settings.bind, hosts=hosts, processes=processes)


def _watch(children: list[Process]) -> int:
    """Until somebody stops us, which is success, or a child ends by itself."""
    try:
        while all(child.returncode is None for child in children):
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        # A second Ctrl-C must not cut the orderly stop short.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("stopping", flush=True)
        return 0
    ended = next(child for child in children if child.returncode is not None)
    raise CommandError(f"{ended.name} ended with status {ended.returncode}; see {ended.log}")
