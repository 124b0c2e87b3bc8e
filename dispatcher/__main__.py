"""`python -m dispatcher` sends the webhooks that are due and maintains the queue, until SIGTERM.

Without the settings that sending needs it only maintains.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from app.cpu import use_batch_policy
from app.db import DatabaseUnfit
from app.db.migrations import MigrationError
from app.logs import configure_logging
from app.settings import Settings, SettingsError, load_settings, require_delivery
from dispatcher.daemon import Daemon, SchemaNotCurrent
from dispatcher.http.sender import Sender, make_sender
from dispatcher.signals import StopSignals
from dispatcher.systemd import Notifier

log = logging.getLogger("dispatcher")

# The exit status for a configuration that can't work; restarting does not help (sysexits.h).
EX_CONFIG = 78


def main(
    environ: Mapping[str, str] = os.environ, sender_for: Callable[[Settings], Sender] = make_sender
) -> int:
    """Run the dispatcher and return its exit status. The hostile suite passes a `sender_for` of its own."""
    try:
        settings = load_settings(environ)
    except SettingsError as error:
        print(f"dispatcher: {error}", file=sys.stderr)
        return EX_CONFIG
    configure_logging(settings)
    stop_signals = StopSignals()
    use_batch_policy()
    runtime = environ.get("RUNTIME_DIRECTORY")
    missing = require_delivery(settings)
    daemon = Daemon(
        settings,
        Notifier(environ),
        None if missing else sender_for(settings),
        Path(runtime) if runtime else None,
        sends_nothing="; ".join(missing),
    )
    try:
        return daemon.run(stop_signals.wait)
    except DatabaseUnfit as error:
        log.error("%s", error)
        return EX_CONFIG
    except (SchemaNotCurrent, MigrationError) as error:
        log.error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
