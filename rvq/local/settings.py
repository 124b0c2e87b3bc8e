"""The settings of an RVQ on this machine, and the environment of its processes."""

from __future__ import annotations

import os
from collections.abc import Mapping

from app.settings.settings import PREFIXES
from rvq.ports import free_port

DEFAULT_BIND = "127.0.0.1:8000"
# Where a receiver on this machine is expected, so that a first webhook needs no settings.
DEFAULT_RECEIVER = "http://127.0.0.1:9000"


def local_settings(database_url: str, *allowed_hosts: str, **changes: str) -> dict[str, str]:
    """Return settings without keys for an API on a free port; "" in `changes` takes a setting away.

    `allowed_hosts` are entries of the allowlist: origins on loopback that webhooks may go to.
    """
    settings = {
        "APP_DATABASE_URL": database_url,
        "APP_BIND": f"127.0.0.1:{free_port()}",
        "APP_WEBHOOK_ALLOWED_HOSTS": ", ".join(allowed_hosts or (DEFAULT_RECEIVER,)),
        "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.1/32",
        "APP_LOG_FORMAT": "text",
        **changes,
    }
    return {name: value for name, value in settings.items() if value}


def child_environ(settings: Mapping[str, str]) -> dict[str, str]:
    """Return our environment for a child, with its RVQ settings replaced by `settings`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}
    return {**inherited, **settings}
