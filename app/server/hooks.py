"""The hooks that Gunicorn calls; gunicorn.conf.py binds them to Gunicorn's names.

The master reads the settings and prepares the database before it listens; each process opens its share of the
database connections after the fork and before it accepts. Nothing here may import app.web.metrics: its folder
has to be known first, and only the serving processes write to it.
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
import socket
import struct
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from app import cpu
from app.db import DatabaseError, Pool
from app.db.migrations import MigrationError
from app.logs import configure_logging
from app.server.adapters import complete_request, respond_to_error
from app.server.body import STALL_SECONDS
from app.server.database import prepare_database, wait_for_database
from app.settings import Settings, SettingsError, load_settings
from app.web.metric_files import fold_ended

log = logging.getLogger("rvq.serving")

# Calls that may wait for each connection, so that a short stall of the database refuses nobody.
WAITERS_PER_CONNECTION = 6
WAIT_SECONDS = 1.0
# Threads left over when every connection is in use and every waiter waits: they send 503 and health.
SPARE_THREADS = 8
# New objects between two collections of the young ones; hardly any of ours are in cycles.
GC_THRESHOLD = 20_000
# Seconds between two tries while the database is away at the start.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
METRICS_PREFIX = "rvq-metrics-"

settings: Settings
pool: Pool | None = None


def load(environ: Mapping[str, str], before: Settings | None = None) -> Settings:
    """Return the settings, or list every problem and end this process.

    On a reload the settings `before` are kept instead: a mistake must not end a service that runs.
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
    """Return the threads of one process: one for each connection, one for each waiter, and some spare."""
    return settings.connections_per_process * (1 + WAITERS_PER_CONNECTION) + SPARE_THREADS


def worker_class() -> str:
    """Return the fast worker where Gunicorn's C parser and epoll are there for it, else Gunicorn's own."""
    has_parser = importlib.util.find_spec("gunicorn_h1c") is not None
    return "app.server.worker.Worker" if has_parser and hasattr(select, "epoll") else "gthread"


def make_pool(settings: Settings) -> Pool:
    """Return a pool with this process's share of the connections."""
    share = settings.connections_per_process
    return Pool(
        settings.database_url,
        share,
        "rvq-api",
        max_waiting=share * WAITERS_PER_CONNECTION,
        wait_seconds=WAIT_SECONDS,
    )


def connections_that_fit(threads: int) -> int:
    """Raise the limit of open files as far as allowed; return how many clients one process may hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(min(4096, hard - 256), threads * 2) if hard > 0 else 4096


def choose_metrics_folder(environ: dict[str, str] | os._Environ[str]) -> None:
    """Choose the folder of metrics, before app.web.metrics is imported, unless the environment names one.

    Folders that a killed Gunicorn left behind are removed.
    """
    if METRICS_FOLDER in environ:
        return
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for folder in parent.glob(METRICS_PREFIX + "*"):
        with contextlib.suppress(OSError):
            lock = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
    # Locked before it gets the name under which another start would remove it.
    unnamed = Path(tempfile.mkdtemp(prefix="rvq-starting-", dir=parent))
    _lock(unnamed)
    folder = unnamed.rename(parent / unnamed.name.replace("rvq-starting-", METRICS_PREFIX))
    environ[METRICS_FOLDER] = str(folder)


def _lock(folder: Path) -> int:
    """Lock a folder until this process and its children end. Raise OSError while others hold it.

    The descriptor stays a bare number: a file object would be collected at a reload, and the lock with it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def on_starting(_server: Any) -> None:
    """Prepare metrics and database, in the master before it listens."""
    os.register_at_fork(
        before=_block_stop_signals,
        after_in_parent=_unblock_stop_signals,
        after_in_child=_reset_stop_signals,
    )
    folder = Path(os.environ[METRICS_FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.db"):
        file.unlink(missing_ok=True)
    try:
        wait_for_database(settings.database_url)
    except (DatabaseError, MigrationError) as error:
        _exit(f"the database is not ready: {error}")


def on_reload(_server: Any) -> None:
    """Prepare the database, in the master, after the new settings are read and before new processes start."""
    try:
        prepare_database(settings.database_url)
    except (DatabaseError, MigrationError) as error:
        log.error("the database was not prepared for the reload: %s", error)


def pre_fork(server: Any, worker: Any) -> None:
    """Give a new process, in the master, the core that the fewest others have."""
    used = [other.core for other in server.WORKERS.values()]
    worker.core = min(sorted(os.sched_getaffinity(0)), key=used.count)


def post_fork(_server: Any, worker: Any) -> None:
    """Open all connections of a new process. Without the database it sends 503 until that is back."""
    global pool
    worker.handle_error = respond_to_error
    cpu.pin_to_core(worker.core)
    cpu.use_batch_policy()
    from app.partner.store import WARM_UP as PARTNER
    from app.worker.store import WARM_UP as WORKER

    pool = make_pool(settings)
    try:
        pool.open([*PARTNER, *WORKER])
    except DatabaseError as error:
        log.error("no warm connections: %s", error)
        pool = make_pool(settings)


def post_worker_init(worker: Any) -> None:
    """Limit how long clients may stall; exempt what is loaded by now from collections: it stays for good."""
    for listener in worker.sockets:  # the connections that it accepts inherit it
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", STALL_SECONDS, 0))
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def pre_request(_worker: Any, request: Any) -> None:
    complete_request(request)


def worker_exit(_server: Any, _worker: Any) -> None:
    if pool is not None:
        pool.close()


def child_exit(_server: Any, worker: Any) -> None:
    """Remove the gauges of a dead process, and add what it counted to that of others, in the master."""
    from prometheus_client.multiprocess import mark_process_dead

    try:
        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
        fold_ended(Path(os.environ[METRICS_FOLDER]), worker.pid)
    except Exception:
        # Here it would end the master.
        log.exception("metrics of a process that ended were not folded", extra={"pid": worker.pid})


def on_exit(_server: Any) -> None:
    folder = os.environ.get(METRICS_FOLDER, "")
    if Path(folder).name.startswith(METRICS_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _block_stop_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def _unblock_stop_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _reset_stop_signals() -> None:
    """Let a stop signal end a new process that has no handlers of its own yet.

    The master's handlers, which it inherits, only queue a signal for the master: a stop would be lost.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    _unblock_stop_signals()


def _exit(reason: str) -> NoReturn:
    log.critical(reason)
    on_exit(None)
    raise SystemExit(1)
