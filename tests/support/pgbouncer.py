"""A real PgBouncer in front of a server, as deploy/postgresql/README.md sets it up."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

from rvq.local.processes import Process
from rvq.ports import free_port

PATH = f"{os.defpath}:/usr/sbin"
needs_pgbouncer = pytest.mark.skipif(not shutil.which("pgbouncer", path=PATH), reason="no PgBouncer")
CONFIGURATION = """
[databases]
* = host={host} port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
ignore_startup_parameters = options
server_login_retry = 1
max_client_conn = 500
pool_mode = {mode}
default_pool_size = {size}
"""


@contextlib.contextmanager
def pgbouncer(url: str, *, mode: str = "transaction", size: int = 20) -> Iterator[str]:
    """Run PgBouncer in front of the server of `url`; yield the URL of that database behind it."""
    server = {"port": "5432", "password": "", **parse_dsn(url)}
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="rvq-pgbouncer-"))
    folder.chmod(0o755)
    file = folder / "pgbouncer.ini"
    file.write_text(CONFIGURATION.format(**server, own_port=port, mode=mode, size=size))
    # It refuses to run as root, and only the server's own account may enter the folder of its socket.
    account = Path(server["host"]).owner() if server["host"].startswith("/") else "nobody"
    user = ["-u", account] if os.geteuid() == 0 else []
    process = Process("pgbouncer", ["pgbouncer", *user, file], {"PATH": PATH}, log=folder / "log")
    behind = urlunsplit(urlsplit(url)._replace(netloc=f"anybody@127.0.0.1:{port}", query=""))
    try:
        process.wait_until(lambda: _answers(behind), 30)
        yield behind
    finally:
        process.stop(10)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        psycopg2.connect(url, connect_timeout=5).close()
    except psycopg2.OperationalError:
        return False
    return True
