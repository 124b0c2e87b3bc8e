"""Times as they stand in answers."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """UTC with microseconds, such as `2026-01-31T12:00:00.000001Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def json_time(moment: datetime | None) -> str:
    """The same in quotes, or null."""
    return "null" if moment is None else f'"{rfc3339(moment)}"'
