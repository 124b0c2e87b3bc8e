"""The processes of a whole RVQ on this machine, exactly as production runs them.

Used by `rvq up`, the demo, the end-to-end tests and the benchmark.
"""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from app.paths import gunicorn_config
from rvq.local.processes import Process, ProcessError

API_READY_SECONDS = 60
DISPATCHER_READY_SECONDS = 60
DEFAULT_BIND = "127.0.0.1:8000"
OUR_PREFIXES = ("APP_", "DISPATCHER_")
# glibc's malloc, told before the program starts: one heap, no caches of threads. One interpreter's threads
# gain nothing from either, and a hundred caches keep what each once needed and pin the pages it lies on.
API_MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"}


def child_environ(settings: Mapping[str, str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child: `environ` (ours), its RVQ settings replaced by `settings`."""
    base = os.environ if environ is None else environ
    inherited = {name: value for name, value in base.items() if not name.startswith(OUR_PREFIXES)}
    return {**inherited, **settings}


def start_api(
    environ: Mapping[str, str], *, log: Path | None = None, pass_fds: Sequence[int] = ()
) -> Process:
    """Gunicorn with the API; returns when it takes traffic. Raises ProcessError with what it said."""
    bind = environ.get("APP_BIND", DEFAULT_BIND)
    _require_free(bind)
    command = [sys.executable, "-m", "gunicorn", "-c", str(gunicorn_config()), "app.wsgi:app"]
    process = Process("the API", command, {**environ, **API_MALLOC}, log=log, pass_fds=pass_fds)
    return _when_ready(process, lambda: process.wait_until(lambda: is_ready(bind), API_READY_SECONDS))


def start_dispatcher(
    environ: Mapping[str, str], *, log: Path | None = None, pass_fds: Sequence[int] = ()
) -> Process:
    """The webhook dispatcher; returns when it says that it is ready. Raises ProcessError."""
    command = [sys.executable, "-m", "dispatcher"]
    process = Process("the dispatcher", command, environ, log=log, notify=True, pass_fds=pass_fds)
    return _when_ready(process, lambda: process.wait_until_notified(DISPATCHER_READY_SECONDS))


def is_ready(bind: str) -> bool:
    """Whether the API at `host:port` answers GET /readyz with 200."""
    connection = http.client.HTTPConnection(*_address(bind), timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _require_free(bind: str) -> None:
    """Otherwise another program's answers could be taken for ours. Raises ProcessError."""
    with socket.socket(socket.AF_INET6 if bind.startswith("[") else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(_address(bind))
        except OSError as error:
            raise ProcessError(f"the API can't listen on {bind}: {error.strerror}") from None


def _address(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    if not port.isdigit():
        raise ProcessError(f"a local stack listens on host:port, not on {bind}")
    return host.strip("[]"), int(port)


def _when_ready(process: Process, wait: Callable[[], None]) -> Process:
    """The process, once it is ready; one that does not become ready is not left running."""
    try:
        wait()
    except BaseException:
        process.stop(deadline_seconds=5)
        raise
    return process
