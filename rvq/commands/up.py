"""`rvq up` runs a whole RVQ on this machine, which keeps its data and stays until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.db.migrations import migrate
from app.settings import Settings, load_settings, switched_off
from app.settings.settings import PREFIXES
from rvq.embedded import Cluster
from rvq.errors import CommandError
from rvq.local.credentials import local_credentials, write_private
from rvq.local.folders import children_lock, default_folder, only_one
from rvq.local.processes import Process
from rvq.local.settings import local_settings
from rvq.local.stack import DATABASE, LocalStack

HELP = "run a local stack (PostgreSQL, API, dispatcher) that keeps its data and stays until Ctrl-C"
LOOK_SECONDS = 0.5
BANNER = """
RVQ runs; Ctrl-C stops it, and its data stays in {folder}

  API          {url}    documentation: {url}/docs
  webhooks to  {hosts}
  processes    {processes}
  logs         {folder}/api.log and dispatcher.log
{off}  keys         {folder}/environment, for a shell:

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
        chosen = {"APP_BIND": "", **local_credentials(folder / "settings.env"), **_given(environ)}
        if "APP_DATABASE_URL" not in chosen:
            cluster = stack.enter_context(Cluster(folder / "postgresql", version=arguments.postgres))
            cluster.ensure_database(DATABASE)
            chosen["APP_DATABASE_URL"] = cluster.url(DATABASE)
        settings = local_settings(chosen["APP_DATABASE_URL"], **chosen)
        checked = load_settings(settings)
        migrate(checked.database_url)
        rvq = stack.enter_context(LocalStack(settings, folder, pass_fds=[lock]))
        rvq.start()
        _write_environment(rvq)
        print(_banner(rvq, checked), flush=True)
        return _watch(rvq.processes)


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the user set: it goes before what we make up."""
    return {name: value for name, value in environ.items() if name.startswith(PREFIXES)}


def _write_environment(rvq: LocalStack) -> None:
    """Write down everything that a shell on this machine needs to talk to the stack."""
    told = {"RVQ_URL": rvq.url, "RVQ_WORKER_TOKEN": rvq.settings.get("APP_WORKER_TOKEN", "")}
    write_private(rvq.folder / "environment", {**rvq.settings, **told})


def _banner(rvq: LocalStack, settings: Settings) -> str:
    hosts = ", ".join(str(host) for host in settings.webhook_allowed_hosts) or "nowhere"
    off = "".join(f"  off          {line}\n" for line in switched_off(settings))
    processes = ", ".join(f"{process.name} (pid {process.pid})" for process in rvq.processes)
    return BANNER.format(folder=rvq.folder, url=rvq.url, hosts=hosts, processes=processes, off=off)


def _watch(processes: Sequence[Process]) -> int:
    """Wait until somebody stops us, which is success. Raises CommandError when a process ends by itself."""
    try:
        while all(process.returncode is None for process in processes):
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        # A second Ctrl-C must not cut the orderly stop short.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("stopping", flush=True)
        return 0
    ended = next(process for process in processes if process.returncode is not None)
    raise CommandError(f"{ended.name} ended with status {ended.returncode}; see {ended.log}")
