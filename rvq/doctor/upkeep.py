"""Checks of what maintenance has to keep up with."""

from __future__ import annotations

from collections.abc import Iterator

from rvq.doctor.finding import Finding
from rvq.doctor.store import Store


def of_steps(store: Store, retention_days: int) -> Iterator[Finding]:
    """Name the steps of maintenance that are late, and how much waits for them."""
    late = [one for one in store.due_steps(retention_days) if one.is_behind]
    for step, due, seconds, _ in late:
        since = "" if seconds is None else f", the oldest for {seconds:.0f} s"
        yield Finding("wrong", "maintenance", f"{step} is behind: {due} or more are due{since}")
    if not late:
        yield Finding("ok", "maintenance", "nothing is late")
