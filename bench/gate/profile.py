"""A profile file, with overrides from the command line, says which load is put on and which budgets hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

DEFAULT = Path(__file__).resolve().parent.parent / "profiles" / "default.toml"


# A whole number of the file stays one in the report.
Number = int | float


class ProfileError(Exception):
    """A profile or an override that makes no sense; the text says which value."""


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds for times, bytes for sizes, ticks a second for `rate`."""

    rate: Number
    warmup: Number
    duration: Number
    sub_tasks: int
    claim_limit: int
    in_flight: int
    timeout: Number
    drain: Number
    payload_bytes: tuple[int, int]


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most of each figure, and the least `reached_share` of the requested rate."""

    http_p99_ms: Number
    webhook_lag_p99_ms: Number
    reached_share: Number
    errors: Number
    shed: Number
    invalid_signatures: Number
    lost_webhooks: Number
    duplicate_webhooks: Number
    generator_late_p99_ms: Number


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    load: Load
    budgets: Budgets


def read_profile(
    file: Path = DEFAULT, load: Mapping[str, Any] | None = None, budgets: Mapping[str, Any] | None = None
) -> Profile:
    """Read the file's profile and replace these values (None leaves one as it is). Raises ProfileError."""
    try:
        document = msgspec.toml.decode(file.read_text())
        for part, changes in (("load", load or {}), ("budgets", budgets or {})):
            document[part] |= {name: value for name, value in changes.items() if value is not None}
        return _checked(msgspec.convert(document, Profile))
    except (OSError, ValueError, TypeError, KeyError, msgspec.MsgspecError) as error:
        raise ProfileError(f"{file}: {error!r}") from error


def parse_budgets(texts: list[str]) -> dict[str, float]:
    """Parse `name=value` texts. Raises ProfileError."""
    known = Budgets.__struct_fields__
    parsed = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known:
            raise ProfileError(f"no such budget: {name}; there are {', '.join(sorted(known))}")
        try:
            parsed[name] = float(value)
        except ValueError:
            raise ProfileError(f"budget {name}: {value!r} is not a number") from None
    return parsed


def _checked(profile: Profile) -> Profile:
    load = profile.load
    if not (load.rate > 0 and load.duration > 0 and load.warmup >= 0):
        raise ProfileError("rate and duration must be above 0, warmup not below")
    if not (1 <= load.sub_tasks <= 10_000 and 1 <= load.claim_limit <= 1_000):
        raise ProfileError("sub_tasks must be 1 to 10 000, claim_limit 1 to 1 000")
    if not 16 <= load.payload_bytes[0] <= load.payload_bytes[1] <= 262_144:
        raise ProfileError("payload_bytes must be two sizes between 16 and 262 144, the smaller first")
    return profile
