"""Keys that a local stack makes for itself, kept in a file that only its owner can read."""

from __future__ import annotations

import base64
import os
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path


def local_credentials(file: Path) -> dict[str, str]:
    """Return the settings in `file`, NAME=VALUE lines; make it with new keys when it does not exist."""
    if not file.exists():
        write_private(file, new_credentials())
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return {name: "".join(shlex.split(value)) for name, _, value in (line.partition("=") for line in lines)}


def new_credentials() -> dict[str, str]:
    """Return new keys for every audience, and a webhook secret."""
    return {
        "APP_PARTNER_TOKEN": f"partner-{secrets.token_urlsafe(24)}",
        "APP_WORKER_TOKEN": f"worker-{secrets.token_urlsafe(24)}",
        "APP_ADMIN_TOKEN": f"admin-{secrets.token_urlsafe(24)}",
        "APP_WEBHOOK_SECRET": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
    }


def write_private(file: Path, settings: Mapping[str, str]) -> None:
    """Write NAME=VALUE lines: only we can ever read the file, and it is complete whenever it is there."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as output:
        output.writelines(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
    unfinished.rename(file)
