"""Checks of what maintenance has to keep up with."""

from __future__ import annotations

from collections.abc import Iterator

from app.settings import Settings, require_delivery
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


def of_sending(store: Store, settings: Settings) -> Iterator[Finding]:
    """Count the webhooks that were promised and are not sent, if the settings switch sending off."""
    missing = require_delivery(settings)
    promised = sum(one.tasks + one.deliveries for one in store.stored_urls()) if missing else 0
    if promised:
        text = (
            f"{promised} are promised and a dispatcher with these settings sends none: {'; '.join(missing)}"
        )
        yield Finding("wrong", "webhooks", text)
