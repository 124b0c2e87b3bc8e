"""What is done to the database before the API listens: it is waited for, migrated, and given partitions."""

from __future__ import annotations

import contextlib
import logging
import time

from app.db import DatabaseError, DatabaseReadOnly, DatabaseUnfit, connect, partitions
from app.db.errors import ClockOutOfRange
from app.db.migrations import migrate, newer_release
from app.db.rights import require_rights
from app.db.server import record_server
from app.db.sql_files import SqlFiles

log = logging.getLogger("rvq.serving")

# Seconds between two looks for a database that is away.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


def wait_for_database(url: str) -> None:
    """Prepare the database once it is there. Raise an error that waiting does not mend."""
    pause = FIRST_PAUSE
    while True:
        try:
            prepare_database(url)
            return
        except (DatabaseUnfit, DatabaseReadOnly, ClockOutOfRange):
            raise
        except DatabaseError as error:
            log.warning("waiting for the database: %s", error)
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def prepare_database(url: str) -> None:
    """Bring the database up to this release. Raise MigrationError or a DatabaseError."""
    report = migrate(url, SqlFiles.read())
    with contextlib.closing(connect(url, "rvq-migrate")) as connection:
        if newer_release(connection) is None:
            require_rights(connection, "api")
    partitions.create_partitions(url)
    if changed := record_server(url):
        log.warning(changed)
    if report.migrations or report.functions:
        counts = {"migrations": len(report.migrations), "functions": len(report.functions)}
        log.info("schema brought up to date", extra=counts)
