"""Settings, read once from the environment into one frozen object.

Every problem is collected and reported at once, so that an operator fixes a deployment in one go; a
value that may be a secret is never part of a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any, Literal

from app.settings.values import (
    Parse,
    Problems,
    parse_allowed_hosts,
    parse_bind,
    parse_choice,
    parse_count,
    parse_database_url,
    parse_private_hosts,
    parse_secrets,
    parse_signing_key,
    parse_tokens,
)
from app.webhooks.addresses import AllowedHost, PrivateHost

LogFormat = Literal["json", "text"]
PREFIXES = ("APP_", "DISPATCHER_")


class SettingsError(Exception):
    """The environment does not make a valid configuration; `problems` has a line for each fault."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("invalid settings:\n" + "\n".join(f"  - {problem}" for problem in problems))


def _setting(name: str, parse: Parse[Any], default: Any = MISSING, *, is_secret: bool = False) -> Any:
    """Return a field of Settings: its name in the environment, and what reads it there."""
    return field(default=default, repr=not is_secret, metadata={"name": name, "parse": parse})


def _count(name: str, default: int, maximum: int) -> Any:
    return _setting(name, partial(parse_count, default=default, maximum=maximum), default)


def _choice(name: str, *choices: str, default: str) -> Any:
    return _setting(name, partial(parse_choice, choices=choices, default=default), default)


def _parse_processes(environ: Mapping[str, str], name: str, problems: Problems) -> int:
    """Parse a number; by default the cores (at least 2), rounded down to a divisor of the pool.

    Threads of one process share an interpreter lock, so processes are what uses the cores.
    """
    pool = parse_count(environ, "APP_DB_POOL", Problems(), default=32, maximum=1024)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    fitting = max(n for n in range(1, pool + 1) if pool % n == 0 and n <= max(cores, 2))
    return parse_count(environ, name, problems, default=fitting, maximum=1024)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of the API and the dispatcher, a row each; fields that hold a secret stay out of repr().

    `partner_tokens`, `worker_tokens` and `admin_tokens`, where empty, switch that API off. `webhook_secrets`
    are decoded, the newest first. `webhook_signing_key` is a 32-byte Ed25519 seed.
    """

    database_url: str = _setting("APP_DATABASE_URL", parse_database_url, is_secret=True)
    partner_tokens: tuple[str, ...] = _setting("APP_PARTNER_TOKEN", parse_tokens, (), is_secret=True)
    worker_tokens: tuple[str, ...] = _setting("APP_WORKER_TOKEN", parse_tokens, (), is_secret=True)
    admin_tokens: tuple[str, ...] = _setting("APP_ADMIN_TOKEN", parse_tokens, (), is_secret=True)
    webhook_allowed_hosts: tuple[AllowedHost, ...] = _setting(
        "APP_WEBHOOK_ALLOWED_HOSTS", parse_allowed_hosts, ()
    )
    webhook_private_hosts: tuple[PrivateHost, ...] = _setting(
        "APP_WEBHOOK_PRIVATE_HOSTS", parse_private_hosts, ()
    )
    webhook_secrets: tuple[bytes, ...] = _setting("APP_WEBHOOK_SECRET", parse_secrets, (), is_secret=True)
    webhook_signing_key: bytes | None = _setting(
        "APP_WEBHOOK_SIGNING_KEY", parse_signing_key, None, is_secret=True
    )
    bind: str = _setting("APP_BIND", parse_bind, "127.0.0.1:8000")
    db_pool: int = _count("APP_DB_POOL", 32, 1024)
    processes: int = _setting("APP_PROCESSES", _parse_processes, 2)
    dispatcher_db_pool: int = _count("DISPATCHER_DB_POOL", 32, 1024)
    dispatcher_threads: int = _count("DISPATCHER_THREADS", 32, 1024)
    retention_days: int = _count("APP_RETENTION_DAYS", 30, 3650)
    log_level: str = _choice("APP_LOG_LEVEL", "debug", "info", "warning", "error", default="info")
    log_format: LogFormat = _choice("APP_LOG_FORMAT", "json", "text", default="json")  # noqa: RUF009

    @property
    def connections_per_process(self) -> int:
        """The share of the API's pool that each of its processes opens."""
        return self.db_pool // self.processes


KNOWN_NAMES = frozenset(one.metadata["name"] for one in fields(Settings))


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read and check all settings. Raise a SettingsError that lists every problem."""
    problems = Problems()
    for name in sorted(environ):
        if name.startswith(PREFIXES) and name not in KNOWN_NAMES:
            problems.add(name, "no such setting")
    read = {
        one.name: one.metadata["parse"](environ, one.metadata["name"], problems) for one in fields(Settings)
    }
    settings = Settings(**read)
    _refuse_shared_tokens(settings, problems)
    if settings.db_pool % settings.processes:
        problems.add(
            "APP_PROCESSES", f"must divide APP_DB_POOL ({settings.db_pool}): each gets a whole share"
        )
    if problems.lines:
        raise SettingsError(problems.lines)
    return settings


def require_delivery(settings: Settings) -> list[str]:
    """Return what is missing for sending webhooks, as problems; without it the dispatcher only maintains."""
    problems = []
    if not settings.webhook_secrets:
        problems.append("APP_WEBHOOK_SECRET: not set; a webhook is never sent unsigned")
    if not settings.webhook_allowed_hosts:
        problems.append("APP_WEBHOOK_ALLOWED_HOSTS: not set; no address may be sent to")
    return problems


def switched_off(settings: Settings) -> list[str]:
    """Return what valid settings leave switched off: it may not be meant."""
    lines = [
        f"no APP_{name.upper()}_TOKEN: the {name} API is switched off"
        for name in ("partner", "worker", "admin")
        if not getattr(settings, f"{name}_tokens")
    ]
    if missing := require_delivery(settings):
        lines.append(f"no webhooks, the dispatcher only does the maintenance: {'; '.join(missing)}")
    return lines


def _refuse_shared_tokens(settings: Settings, problems: Problems) -> None:
    """Refuse a token of two audiences, which would give each the other's rights."""
    owner: dict[str, str] = {}
    for audience in ("partner", "worker", "admin"):
        name = f"APP_{audience.upper()}_TOKEN"
        for token in getattr(settings, f"{audience}_tokens"):
            if owner.setdefault(token, name) != name:
                problems.add(name, f"has a token that {owner[token]} has too")
