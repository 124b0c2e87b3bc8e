"""Times in requests: RFC 3339 with a zone, within bounds, and in UTC from here on.

PostgreSQL takes no zone beyond +-15:59, and Python no year beyond 9999: a time stored as it came might never
be read again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

FIRST_YEAR, LAST_YEAR = 1970, 2199
RULE = f"RFC 3339 with a zone, from {FIRST_YEAR} to {LAST_YEAR} in UTC"
_FIRST, _END = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)

# A field of a request. Once decoded, it goes through `to_utc`.
GivenMoment = Annotated[datetime, Meta(tz=True, description=RULE)]


def to_utc(time: datetime) -> datetime:
    """Return a time with a zone in UTC. Raise ValueError if it is out of bounds."""
    if not _FIRST <= time < _END:
        raise ValueError(f"must be from {FIRST_YEAR} to {LAST_YEAR} in UTC")
    return time.astimezone(UTC)


def parse_moment(text: str) -> datetime:
    """Return an RFC 3339 time with a zone, in UTC. Raise ValueError for any other text."""
    try:
        time = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError("must be an RFC 3339 time with a zone (in a query, + is written %2B)")
    return to_utc(time)
