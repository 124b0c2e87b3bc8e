"""Parsers of single settings: each reads one name, reports to `problems` and returns a usable value.

A message names the setting and the rule, and the entry's place in a list, but never the value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import psycopg2
from psycopg2.extensions import parse_dsn

from app.webhooks.addresses import AllowedHost, PrivateHost, parse_allowed_host, parse_private_host

Environ = Mapping[str, str]
Parsed = TypeVar("Parsed")

MIN_TOKEN_LENGTH = 16
SECRET_PREFIX = "whsec_"
SIGNING_KEY_PREFIX = "whsk_"
# RFC 6750's alphabet: anything else could not be sent as a bearer token.
TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)

ESCAPED = "in a user or a password, @ : / % ? and # are written as %40 %3A %2F %25 %3F and %23"


@dataclass
class Problems:
    """The problems found so far, as lines of `NAME: what is wrong`."""

    lines: list[str] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        self.lines.append(f"{name}: {text}")


# A parser is called with the environment, the setting's name and the problems.
Parse = Callable[[Environ, str, Problems], Parsed]


def parse_database_url(environ: Environ, name: str, problems: Problems) -> str:
    """Parse a postgresql:// URL: its form is checked here, its parts by libpq when it connects."""
    url = environ.get(name, "")
    if not url:
        problems.add(name, "not set")
    elif not url.startswith(("postgresql://", "postgres://")) or (parts := _parts_of(url)) is None:
        problems.add(name, f"must be a postgresql:// URL; {ESCAPED}")
    elif not _is_well_split(url, parts):
        problems.add(name, f"user, password, host, port and database can't be told apart; {ESCAPED}")
    return url


def parse_tokens(environ: Environ, name: str, problems: Problems) -> tuple[str, ...]:
    """Parse bearer tokens separated by commas. Not set or empty means none, which switches the API off."""
    tokens = tuple(_entries(environ, name, problems))
    for place, token in enumerate(tokens, 1):
        if len(token) < MIN_TOKEN_LENGTH:
            problems.add(name, f"token {place} is shorter than {MIN_TOKEN_LENGTH} characters")
        elif not TOKEN.fullmatch(token):
            problems.add(name, f"token {place} has characters that a bearer token can't have")
    if len(set(tokens)) < len(tokens):
        problems.add(name, "has the same token twice")
    return tokens


def parse_secrets(environ: Environ, name: str, problems: Problems) -> tuple[bytes, ...]:
    """Decode webhook secrets, each `whsec_` + base64 of 24 to 64 bytes, separated by commas."""
    secrets = []
    for place, entry in enumerate(_entries(environ, name, problems, strip=False), 1):
        secret = _decode(entry, SECRET_PREFIX)
        if secret is None:
            problems.add(name, f"secret {place} must be {SECRET_PREFIX} and base64, with no white space")
        elif not 24 <= len(secret) <= 64:
            problems.add(name, f"secret {place} must decode to 24 to 64 bytes")
        else:
            secrets.append(secret)
    if len(set(secrets)) < len(secrets):
        problems.add(name, "has the same secret twice")
    return tuple(secrets)


def parse_signing_key(environ: Environ, name: str, problems: Problems) -> bytes | None:
    """Return the seed of an Ed25519 key: `whsk_` + base64 of it (32 bytes) or it and the public key (64)."""
    entry = environ.get(name, "")
    if not entry:
        return None
    key = _decode(entry, SIGNING_KEY_PREFIX)
    if key is None or len(key) not in (32, 64):
        problems.add(name, f"must be {SIGNING_KEY_PREFIX} and base64 of 32 or 64 bytes, with no white space")
        return None
    if len(key) == 64 and key[32:] != _public_key(key[:32]):
        problems.add(name, "its public half does not belong to its seed")
    return key[:32]


def parse_allowed_hosts(environ: Environ, name: str, problems: Problems) -> tuple[AllowedHost, ...]:
    """Parse `host[:port]` entries separated by commas: https, or plain http with `http://` in front."""
    return _parse_each(environ, name, parse_allowed_host, problems)


def parse_private_hosts(environ: Environ, name: str, problems: Problems) -> tuple[PrivateHost, ...]:
    """Parse `host=cidr` pairs separated by commas."""
    return _parse_each(environ, name, parse_private_host, problems)


def parse_count(environ: Environ, name: str, problems: Problems, *, default: int, maximum: int) -> int:
    """Parse a decimal number from 1 to `maximum`."""
    text = environ.get(name, "")
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= maximum:
        return int(text)
    problems.add(name, f"must be a number from 1 to {maximum}")
    return default


def parse_choice(
    environ: Environ, name: str, problems: Problems, *, choices: Sequence[str], default: str
) -> str:
    text = environ.get(name, "") or default
    if text in choices:
        return text
    problems.add(name, "must be one of " + ", ".join(choices))
    return default


def parse_bind(environ: Environ, name: str, problems: Problems) -> str:
    """Parse the address to listen on: `host:port`, `[v6]:port` or `unix:/path`."""
    bind = environ.get(name, "127.0.0.1:8000")
    host, _, port = bind.rpartition(":")
    if bind.startswith("unix:/") or (host and port.isascii() and port.isdigit() and int(port) < 65536):
        return bind
    problems.add(name, "must be host:port or unix:/path")
    return bind


def _parse_each(
    environ: Environ, name: str, parse: Callable[[str], Parsed], problems: Problems
) -> tuple[Parsed, ...]:
    """Parse each entry of a list; a ValueError of `parse` completes the sentence `entry 2 ...`."""
    parsed = []
    for place, entry in enumerate(_entries(environ, name, problems), 1):
        try:
            parsed.append(parse(entry))
        except ValueError as error:
            problems.add(name, f"entry {place} {error}")
    return tuple(parsed)


def _entries(environ: Environ, name: str, problems: Problems, *, strip: bool = True) -> Iterator[str]:
    """Yield the comma-separated entries of a setting. An empty entry is a problem: a value was lost there.

    If `strip` is false, only the blank after a comma is removed: a secret must be clean by itself.
    """
    text = environ.get(name, "")
    if not text:
        return
    for place, raw in enumerate(text.split(","), 1):
        entry = raw.strip() if strip else raw.removeprefix(" ") if place > 1 else raw
        if entry:
            yield entry
        else:
            problems.add(name, f"entry {place} is empty")


def _decode(entry: str, prefix: str) -> bytes | None:
    """Return the bytes behind the prefix, or None unless they are strict base64 with nothing around."""
    if not entry.startswith(prefix) or not entry.isascii():
        return None
    try:
        return base64.b64decode(entry.removeprefix(prefix), validate=True)
    except binascii.Error:
        return None


def _public_key(seed: bytes) -> bytes:
    # Imported here: the API never needs it, and it is the slowest import there is.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _parts_of(url: str) -> Mapping[str, str] | None:
    """Return what libpq reads in the URL; None when it can't."""
    try:
        parts: Mapping[str, str] = parse_dsn(url)
        return parts
    except (psycopg2.Error, UnicodeError):
        return None


def _is_well_split(url: str, parts: Mapping[str, str]) -> bool:
    """Return False when a bare character of the password has split the URL elsewhere than was meant.

    libpq would take a piece of the password for a host, a port or a database, and later name it in an error.
    """
    ports = parts.get("port", "").split(",")
    path = url.partition("://")[2].partition("?")[0].partition("/")[2]
    return (
        "@" not in parts.get("host", "")
        and "@" not in path
        and all(port == "" or (port.isascii() and port.isdigit() and 0 < int(port) < 65536) for port in ports)
    )
