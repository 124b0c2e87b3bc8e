"""`python -m dispatcher` sends the webhooks that are due and maintains the queue, until SIGTERM."""

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
        settings = read_settings(environ)
    except SettingsError as error:
        print(f"dispatcher: {error}", file=sys.stderr)
        return EX_CONFIG
    configure_logging(settings)
    stop_signals = StopSignals()
    use_batch_policy()
    runtime = environ.get("RUNTIME_DIRECTORY")
    daemon = Daemon(settings, Notifier(environ), sender_for(settings), Path(runtime) if runtime else None)
    try:
        return daemon.run(stop_signals.wait)
    except DatabaseUnfit as error:
        log.error("%s", error)
        return EX_CONFIG
    except (SchemaNotCurrent, MigrationError) as error:
        log.error("%s", error)
        return 1


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings, with all that sending needs. Raises SettingsError with every problem."""
    try:
        settings = load_settings(environ)
    except SettingsError as error:
        needed = require_delivery(Settings(database_url=""))
        missing = [problem for problem in needed if not environ.get(problem.partition(":")[0])]
        raise SettingsError(error.problems + missing) from None
    missing = require_delivery(settings)
    if missing:
        raise SettingsError(missing)
    return settings


if __name__ == "__main__":
    sys.exit(main())
