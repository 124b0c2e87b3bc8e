"""The doctor's examination: all checks, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.db import DatabaseUnfit
from app.settings import Settings
from rvq.doctor import checks, upkeep, work
from rvq.doctor.finding import Finding
from rvq.doctor.publications import of_publications
from rvq.doctor.roles import of_roles
from rvq.doctor.server import of_server
from rvq.doctor.standbys import of_standbys
from rvq.doctor.store import Store

Check = Callable[[Store], Iterator[Finding]]

NEED_SCHEMA: tuple[Check, ...] = (
    of_roles,
    of_publications,
    of_standbys,
    checks.of_sessions,
    checks.of_clock,
    checks.of_configuration,
    checks.of_partitions,
    checks.of_history,
    checks.of_damage,
    checks.of_vacuum,
    checks.of_dispatcher,
    work.of_queues,
    work.of_hosts,
    checks.of_counters,
)


def examine(store: Store, settings: Settings) -> Iterator[Finding]:
    """Make all checks, in order; only the first of them when the schema is not current."""
    yield from checks.of_settings(settings)
    yield from of_server()
    first = list(checks.of_database(store))
    yield from first
    if all(finding.level != "wrong" for finding in first if finding.what == "schema"):
        yield from _despite_rights(checks.of_connections(store, settings))
        yield from _despite_rights(checks.of_retention(store, settings))
        yield from _despite_rights(upkeep.of_steps(store, settings.retention_days))
        yield from _despite_rights(upkeep.of_sending(store, settings))
        for check in NEED_SCHEMA:
            yield from _despite_rights(check(store))


def _despite_rights(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Go on with the next check where the role may not ask what this one asks."""
    try:
        yield from findings
    except DatabaseUnfit as error:
        yield Finding("wrong", "rights", str(error))
