"""A server that lives as long as the process that asked for it, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rvq.embedded.account import server_account
from rvq.embedded.cluster import Cluster, Setting
from rvq.embedded.installs import DEFAULT_VERSION

# Only a crash of the machine can lose something, and then the data is gone anyway.
FAST_AND_UNSAFE: Mapping[str, Setting] = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "2GB",
    "log_lock_waits": "on",
}
# What a measurement or a demonstration of the real path must not leave out.
DURABLE: Mapping[str, Setting] = {"fsync": "on", "full_page_writes": "on"}


@contextlib.contextmanager
def throwaway_cluster(
    *,
    version: int | str | Path = DEFAULT_VERSION,
    settings: Mapping[str, Setting] | None = None,
    port: int | None = None,
) -> Iterator[Cluster]:
    """Yield a started cluster in a temporary folder; it is stopped and deleted even if we are killed."""
    folder = Path(tempfile.mkdtemp(prefix="rvq-pg-", dir=_place()))
    folder.chmod(0o755)
    settings = {**FAST_AND_UNSAFE, **(settings or {})}
    cluster = Cluster(folder / "cluster", version=version, settings=settings, port=port)
    guard = _guard(cluster)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(deadline_seconds=5)
        shutil.rmtree(folder, ignore_errors=True)
        guard.communicate()


def _place() -> str | None:
    """Return a folder for temporary files that the server's account can enter: root's own may be private."""
    places = (tempfile.gettempdir(), "/tmp", "/var/tmp")
    return next((place for place in places if server_account().can_enter(Path(place))), None)


def _guard(cluster: Cluster) -> subprocess.Popen[bytes]:
    """Start a process that waits for its standard input to close, as when we die, and cleans up."""
    script = 'read _; kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")" 2>/dev/null; rm -rf "$2"'
    command = ["/bin/sh", "-c", script, "sh", str(cluster.folder), str(cluster.folder.parent)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
