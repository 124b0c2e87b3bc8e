"""A new list of webhook hosts may block some of what is still to be sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.settings import SettingsError
from app.settings.values import Problems, parse_allowed_hosts
from app.webhooks.addresses import AddressRefused, AllowedHost, check_url
from rvq.doctor.figures import StoredUrl

NAME = "APP_WEBHOOK_ALLOWED_HOSTS"


@dataclass
class Blocked:
    """Addresses that are refused for one reason, with the first of them."""

    reason: str
    example: str
    addresses: int = 0
    tasks: int = 0
    deliveries: int = 0


def parse(text: str) -> tuple[AllowedHost, ...]:
    """Parse the list as the setting is parsed. Raises SettingsError with every problem."""
    problems = Problems()
    hosts = parse_allowed_hosts({NAME: text}, NAME, problems)
    if problems.lines:
        raise SettingsError(problems.lines)
    return hosts


def blocked(stored: Iterable[StoredUrl], allowed: tuple[AllowedHost, ...]) -> list[Blocked]:
    found: dict[str, Blocked] = {}
    for url, tasks, deliveries in stored:
        try:
            check_url(url, allowed)
        except AddressRefused as refused:
            one = found.setdefault(refused.detail, Blocked(refused.detail, url))
            one.addresses += 1
            one.tasks += tasks
            one.deliveries += deliveries
    return list(found.values())
