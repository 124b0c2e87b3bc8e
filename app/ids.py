"""Ids: one 63-bit number scheme inside, opaque texts outside.

Inside: day (15 bits) | cell (5) | number (28) | gated (1) | ordinal (14); see sql/functions/ids. A task has
ordinal 0, its sub_tasks 1 and up; an event's is mostly the run it ended; a delivery has its event's number.
Outside: `task_`, `sub_`, `evt_` or `dlv_` and 16 hex digits.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

ORDINALS = (1 << 14) - 1
CELLS = (1 << 5) - 1
HIGHEST = (1 << 63) - 1
# The days that ids can say, as in rvq.require_day.
FIRST_DAY = date(2024, 1, 1)
LAST_DAY = FIRST_DAY + timedelta(days=(1 << 15) - 2)
# The first digit keeps the number within a signed 64-bit integer.
_NUMBER = re.compile(r"[0-7][0-9a-f]{15}", re.ASCII)
NEVER_GIVEN = "0" * 32
_LEASE_TOKEN = re.compile(r"[0-9a-f]{32}", re.ASCII)


def task_id(number: int) -> str:
    return f"task_{number:016x}"


def sub_task_id(number: int) -> str:
    return f"sub_{number:016x}"


def event_id(number: int) -> str:
    return f"evt_{number:016x}"


def delivery_id(number: int) -> str:
    return f"dlv_{number:016x}"


def number_of(identifier: str) -> int:
    """Return the number in an id that RVQ made, whatever its prefix."""
    return int(identifier[-16:], 16)


def task_of(number: int) -> int:
    """Return the number of the task to which a number of any kind belongs."""
    return number & ~ORDINALS


def cell_of(number: int) -> int:
    """Return which of several databases a number of any kind is in: 0 as long as there is only one."""
    return number >> 43 & CELLS


def index_of(sub_task: int) -> int:
    """Return the position of a sub_task in its task, from 0."""
    return (sub_task & ORDINALS) - 1


def parse_task_id(text: str) -> int | None:
    """Return the number; None for a text that is not an id of ours, which is the same as an unknown one."""
    number = _parse("task_", text)
    return number if number is not None and not number & ORDINALS else None


def parse_sub_task_id(text: str) -> int | None:
    number = _parse("sub_", text)
    return number if number is not None and number & ORDINALS else None


def parse_event_id(text: str) -> int | None:
    return _parse("evt_", text)


def parse_delivery_id(text: str) -> int | None:
    return _parse("dlv_", text)


def parse_lease_token(text: str) -> str:
    """Return the token as PostgreSQL reads it; for any other text, one that no claim ever hands out."""
    return text if _LEASE_TOKEN.fullmatch(text) else NEVER_GIVEN


def _parse(prefix: str, text: str) -> int | None:
    if not text.startswith(prefix) or not _NUMBER.fullmatch(text, len(prefix)):
        return None
    return int(text[len(prefix) :], 16)
