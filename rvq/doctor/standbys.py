"""Checks of the standbys that a commit has to wait for."""

from __future__ import annotations

from collections.abc import Iterator

from rvq.doctor.finding import Finding
from rvq.doctor.store import Store


def of_standbys(store: Store) -> Iterator[Finding]:
    """Say whether commits wait, or will wait, for a synchronous standby that is not there."""
    names, connected, waiting = store.synchronous_standbys()
    if waiting:
        text = f"{waiting} commits wait for {names}: connect a standby, or name another"
        yield Finding("wrong", "standbys", text)
    elif names and not connected:
        text = f"none of {names} is connected, and commits wait for one (synchronous_standby_names)"
        yield Finding("wrong", "standbys", text)
    elif names:
        yield Finding("ok", "standbys", f"{connected} of {names} confirm commits")
