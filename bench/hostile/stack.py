"""The RVQ under test: PostgreSQL, the API, and the dispatcher with the suite's names and authority."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from app.paths import ROOT
from bench.hostile.names import PAIRS
from bench.hostile.receivers import Listeners
from rvq.embedded import throwaway_cluster
from rvq.local.credentials import new_credentials
from rvq.local.settings import local_settings
from rvq.local.stack import DATABASE, LocalStack


@contextlib.contextmanager
def hostile_stack(listeners: Listeners, deadline: float, folder: Path) -> Iterator[LocalStack]:
    """Start everything; stop it at the end. Raises EmbeddedError or ProcessError."""
    with throwaway_cluster() as cluster:
        cluster.create_database(DATABASE)
        changes = {"APP_WEBHOOK_PRIVATE_HOSTS": ", ".join(PAIRS), **new_credentials()}
        with LocalStack(local_settings(cluster.url(DATABASE), *listeners.origins, **changes), folder) as rvq:
            rvq.start_api()
            options = ("--ca-file", str(listeners.ca_file), "--deadline", str(deadline))
            rvq.start_dispatcher("bench.hostile.dispatcher", *options, PYTHONPATH=str(ROOT))
            yield rvq
