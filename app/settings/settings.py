"""Settings, read once from the environment into one frozen object.

Every problem is collected and reported at once, so that an operator fixes a deployment in one go; a
value that may be a secret is never part of a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from app.settings.values import (
    Problems,
    parse_allowed_hosts,
    parse_choice,
    parse_count,
    parse_database_url,
    parse_private_hosts,
    parse_secrets,
    parse_signing_key,
    parse_tokens,
)
from app.webhooks.addresses import AllowedHost, PrivateHost

__all__ = [
    "AllowedHost",
    "PrivateHost",
    "Settings",
    "SettingsError",
    "load_settings",
    "require_delivery",
]

LogFormat = Literal["json", "text"]

AUDIENCES = ("PARTNER", "WORKER", "ADMIN")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("json", "text")

KNOWN_NAMES = frozenset(
    {
        "APP_DATABASE_URL",
        "APP_PARTNER_TOKEN",
        "APP_WORKER_TOKEN",
        "APP_ADMIN_TOKEN",
        "APP_WEBHOOK_ALLOWED_HOSTS",
        "APP_WEBHOOK_PRIVATE_HOSTS",
        "APP_WEBHOOK_SECRET",
        "APP_WEBHOOK_SIGNING_KEY",
        "APP_BIND",
        "APP_DB_POOL",
        "APP_PROCESSES",
        "APP_RETENTION_DAYS",
        "APP_LOG_LEVEL",
        "APP_LOG_FORMAT",
        "DISPATCHER_DB_POOL",
        "DISPATCHER_THREADS",
    }
)


class SettingsError(Exception):
    """The environment does not make a valid configuration; `problems` has a line for each fault."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("invalid settings:\n" + "\n".join(f"  - {problem}" for problem in problems))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of the API and the dispatcher; fields that hold a secret stay out of repr().

    `partner_tokens`, `worker_tokens` and `admin_tokens`, where empty, switch that API off. `webhook_secrets`
    are decoded, the newest first. `webhook_signing_key` is a 32-byte Ed25519 seed.
    """

    database_url: str = field(repr=False)
    partner_tokens: tuple[str, ...] = field(default=(), repr=False)
    worker_tokens: tuple[str, ...] = field(default=(), repr=False)
    admin_tokens: tuple[str, ...] = field(default=(), repr=False)
    webhook_allowed_hosts: tuple[AllowedHost, ...] = ()
    webhook_private_hosts: tuple[PrivateHost, ...] = ()
    webhook_secrets: tuple[bytes, ...] = field(default=(), repr=False)
    webhook_signing_key: bytes | None = field(default=None, repr=False)
    bind: str = "127.0.0.1:8000"
    db_pool: int = 32
    processes: int = 2
    dispatcher_db_pool: int = 32
    dispatcher_threads: int = 32
    retention_days: int = 30
    log_level: str = "info"
    log_format: LogFormat = "json"

    @property
    def connections_per_process(self) -> int:
        """The share of the API's pool that each of its processes opens."""
        return self.db_pool // self.processes


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read and check all settings. Raise a SettingsError that lists every problem."""
    problems = Problems()
    _refuse_unknown_names(environ, problems)
    tokens = {name: parse_tokens(environ, f"APP_{name}_TOKEN", problems) for name in AUDIENCES}
    _refuse_shared_tokens(tokens, problems)
    settings = Settings(
        database_url=parse_database_url(environ, "APP_DATABASE_URL", problems),
        partner_tokens=tokens["PARTNER"],
        worker_tokens=tokens["WORKER"],
        admin_tokens=tokens["ADMIN"],
        webhook_allowed_hosts=parse_allowed_hosts(environ, "APP_WEBHOOK_ALLOWED_HOSTS", problems),
        webhook_private_hosts=parse_private_hosts(environ, "APP_WEBHOOK_PRIVATE_HOSTS", problems),
        webhook_secrets=parse_secrets(environ, "APP_WEBHOOK_SECRET", problems),
        webhook_signing_key=parse_signing_key(environ, "APP_WEBHOOK_SIGNING_KEY", problems),
        bind=_parse_bind(environ, problems),
        db_pool=parse_count(environ, "APP_DB_POOL", 32, 1024, problems),
        processes=parse_count(environ, "APP_PROCESSES", _default_processes(environ), 1024, problems),
        dispatcher_db_pool=parse_count(environ, "DISPATCHER_DB_POOL", 32, 1024, problems),
        dispatcher_threads=parse_count(environ, "DISPATCHER_THREADS", 32, 1024, problems),
        retention_days=parse_count(environ, "APP_RETENTION_DAYS", 30, 3650, problems),
        log_level=parse_choice(environ, "APP_LOG_LEVEL", LOG_LEVELS, "info", problems),
        log_format=cast(LogFormat, parse_choice(environ, "APP_LOG_FORMAT", LOG_FORMATS, "json", problems)),
    )
    if settings.db_pool % settings.processes:
        problems.add(
            "APP_PROCESSES", f"must divide APP_DB_POOL ({settings.db_pool}): each gets a whole share"
        )
    if problems.lines:
        raise SettingsError(problems.lines)
    return settings


def require_delivery(settings: Settings) -> list[str]:
    """Return what is missing for sending webhooks, as problems; empty when the dispatcher may start."""
    problems = []
    if not settings.webhook_secrets:
        problems.append("APP_WEBHOOK_SECRET: not set; a webhook is never sent unsigned")
    if not settings.webhook_allowed_hosts:
        problems.append("APP_WEBHOOK_ALLOWED_HOSTS: not set; no address may be sent to")
    return problems


def _default_processes(environ: Mapping[str, str]) -> int:
    """Return the number of cores (at least 2), rounded down to a divisor of the pool.

    Threads of one process share an interpreter lock, so processes are what uses the cores.
    """
    pool = parse_count(environ, "APP_DB_POOL", 32, 1024, Problems())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(n for n in range(1, pool + 1) if pool % n == 0 and n <= max(cores, 2))


def _refuse_unknown_names(environ: Mapping[str, str], problems: Problems) -> None:
    for name in sorted(environ):
        if name.startswith(("APP_", "DISPATCHER_")) and name not in KNOWN_NAMES:
            problems.add(name, "no such setting")


def _refuse_shared_tokens(tokens: Mapping[str, tuple[str, ...]], problems: Problems) -> None:
    """Refuse a token of two audiences, which would give each the other's rights."""
    owner: dict[str, str] = {}
    for name, values in tokens.items():
        for value in values:
            if owner.setdefault(value, name) != name:
                problems.add(f"APP_{name}_TOKEN", f"has a token that APP_{owner[value]}_TOKEN has too")


def _parse_bind(environ: Mapping[str, str], problems: Problems) -> str:
    """Return the address to listen on: `host:port`, `[v6]:port` or `unix:/path`."""
    bind = environ.get("APP_BIND", "127.0.0.1:8000")
    host, _, port = bind.rpartition(":")
    if bind.startswith("unix:/") or (host and port.isascii() and port.isdigit() and int(port) < 65536):
        return bind
    problems.add("APP_BIND", "must be host:port or unix:/path")
    return bind
