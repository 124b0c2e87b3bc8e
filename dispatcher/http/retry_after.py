"""The Retry-After header says how long a receiver asks to be left alone."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST: Final = 86_400.0

# A server's line of digits may be as long as a head; the number matters only up to a day.
_SECONDS = re.compile(r"\A0*([0-9]{1,9})[0-9]*\Z")


def parse_retry_after(value: str | None, date: str | None, now: float) -> float | None:
    """Return the seconds to wait, 0 to a day; None when the header is absent or makes no sense.

    `value` is seconds or an HTTP date. A date is of the receiver's clock, so it is compared with `date`,
    the response's own Date header, and only without one with `now`, our clock in Unix seconds.
    """
    text = (value or "").strip(" \t")
    if _SECONDS.match(text):
        return LONGEST if len(text.lstrip("0")) > 9 else min(float(text or 0), LONGEST)
    until = _parse_date(text)
    if until is None:
        return None
    since = _parse_date((date or "").strip(" \t"))
    return min(max(until - (now if since is None else since), 0.0), LONGEST)


def _parse_date(text: str) -> float | None:
    """Return the Unix seconds of an HTTP date in any of its three forms; one without a zone is UTC."""
    # The parser is lenient about nearly everything; what is far from a date's length is not one.
    if not 20 <= len(text) <= 40:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
