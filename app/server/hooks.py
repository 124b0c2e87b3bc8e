"""What Gunicorn does at the turns of its processes' lives; gunicorn.conf.py binds it to Gunicorn's names.

The master reads the settings, migrates and makes partitions before it listens; each process opens its share
of the database connections after the fork and before it accepts. Nothing here may import app.web.metrics: its
folder has to be known first, and only the processes that serve write to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.util
import logging
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import psycopg2

from app import cpu
from app.db import DatabaseError, DatabaseUnavailable, Pool, partitions
from app.db.migrations import MigrationError, migrate
from app.db.sql_files import SqlFiles
from app.logs import configure_logging
from app.server.adapters import respond_to_error
from app.settings import Settings, SettingsError, load_settings

log = logging.getLogger("rvq.serving")

# Calls that wait for a connection, for each connection; they ride out a stall of the database.
WAITERS_PER_CONNECTION = 6
WAIT_SECONDS = 1.0
# Threads that are left when every connection is in use and every waiter waits: they shed and tell health.
SPARE_THREADS = 8
# New objects before the collector looks at the young ones; hardly any of ours are in cycles.
GC_THRESHOLD = 20_000
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
METRICS_PREFIX = "rvq-metrics-"

settings: Settings
pool: Pool | None = None


def load(environ: Mapping[str, str], before: Settings | None = None) -> Settings:
    """The settings, or the end of this process with every problem listed.

    On a reload (`before`) the old ones are kept instead: a mistake must not end a service that runs.
    """
    global settings
    try:
        settings = load_settings(environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        if before is None:
            raise SystemExit(2) from None
        settings = before
    configure_logging(settings)
    return settings


def threads_of(settings: Settings) -> int:
    """Of one process: one for each connection, the waiters, and some spare."""
    return settings.connections_per_process * (1 + WAITERS_PER_CONNECTION) + SPARE_THREADS


def worker_class() -> str:
    """Return the fast worker where Gunicorn's C parser and epoll are there for it, else Gunicorn's own."""
    has_parser = importlib.util.find_spec("gunicorn_h1c") is not None
    return "app.server.worker.Worker" if has_parser and hasattr(select, "epoll") else "gthread"


def make_pool(settings: Settings) -> Pool:
    """This process's share of the budget."""
    share = settings.connections_per_process
    return Pool(
        settings.database_url,
        share,
        "rvq-api",
        max_waiting=share * WAITERS_PER_CONNECTION,
        wait_seconds=WAIT_SECONDS,
    )


def connections_that_fit(threads: int) -> int:
    """How many clients one process may hold, given the limit of open files (raised as far as allowed)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(min(4096, hard - 256), threads * 2) if hard > 0 else 4096


def choose_metrics_folder(environ: dict[str, str] | os._Environ[str]) -> None:
    """Set before app.web.metrics is imported. A given folder is kept; what a killed Gunicorn left goes."""
    if METRICS_FOLDER in environ:
        return
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for folder in parent.glob(METRICS_PREFIX + "*"):
        with contextlib.suppress(OSError):
            lock = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
    # Locked before it has the name under which another start would sweep it.
    unnamed = Path(tempfile.mkdtemp(prefix="rvq-starting-", dir=parent))
    _lock(unnamed)
    folder = unnamed.rename(parent / unnamed.name.replace("rvq-starting-", METRICS_PREFIX))
    environ[METRICS_FOLDER] = str(folder)


def _lock(folder: Path) -> int:
    """Until this process and its children end; raises OSError while others live in the folder.

    A bare descriptor, and no object: a reload would throw that away, and the lock with it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def on_starting(_server: Any) -> None:
    """In the master, before it listens."""
    os.register_at_fork(before=_hold_stops, after_in_parent=_take_stops, after_in_child=_die_of_stops)
    folder = Path(os.environ[METRICS_FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.db"):
        file.unlink(missing_ok=True)
    try:
        _prepare_database()
    except (DatabaseError, MigrationError) as error:
        _give_up(f"the database is not ready: {error}")


def on_reload(_server: Any) -> None:
    """In the master, after the new settings are read and before new processes start."""
    try:
        _prepare_database()
    except (DatabaseError, MigrationError) as error:
        log.error("the database was not prepared for the reload: %s", error)


def pre_fork(server: Any, worker: Any) -> None:
    """In the master: a new process gets the core that the fewest others have."""
    taken = [other.core for other in server.WORKERS.values()]
    worker.core = min(sorted(os.sched_getaffinity(0)), key=taken.count)


def post_fork(_server: Any, worker: Any) -> None:
    """In a new process: all its connections, warm. Without the database it serves 503 until it is back."""
    global pool
    worker.handle_error = respond_to_error
    cpu.pin_to_core(worker.core)
    cpu.use_batch_policy()
    from app.partner.store import WARM_UP as PARTNER
    from app.worker.store import WARM_UP as WORKER

    pool = make_pool(settings)
    try:
        pool.open([*PARTNER, *WORKER])
    except (DatabaseUnavailable, psycopg2.Error) as error:
        log.error("no warm connections: %s", error)
        pool = make_pool(settings)


def post_worker_init(_worker: Any) -> None:
    """In a new process, with everything loaded: what is there now stays, and need not be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def worker_exit(_server: Any, _worker: Any) -> None:
    if pool is not None:
        pool.close()


def child_exit(_server: Any, worker: Any) -> None:
    """In the master: gauges of a dead process are no longer counted."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(_server: Any) -> None:
    folder = os.environ.get(METRICS_FOLDER, "")
    if Path(folder).name.startswith(METRICS_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _hold_stops() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def _take_stops() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def _die_of_stops() -> None:
    """The master's handlers, which are inherited, only take notes: a stop that comes now would be lost."""
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)
    _take_stops()


def _prepare_database() -> None:
    report = migrate(settings.database_url, SqlFiles.read())
    partitions.create_partitions(settings.database_url)
    if report.migrations or report.functions:
        counts = {"migrations": len(report.migrations), "functions": len(report.functions)}
        log.info("schema brought up to date", extra=counts)


def _give_up(reason: str) -> NoReturn:
    log.critical(reason)
    on_exit(None)
    raise SystemExit(1)
