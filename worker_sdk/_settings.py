"""RVQ's address and the token, read once from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ._errors import ConfigurationError


@dataclass(frozen=True)
class Settings:
    """Where RVQ is. `url` has no trailing slash; `ca_bundle` is a PEM file (None: certifi's)."""

    url: str
    token: str = field(repr=False)
    ca_bundle: str | None = None


def load_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read RVQ_URL, RVQ_WORKER_TOKEN and RVQ_CA_BUNDLE. Raises ConfigurationError with every problem."""
    url = environ.get("RVQ_URL", "")
    token = environ.get("RVQ_WORKER_TOKEN", "")
    bundle = environ.get("RVQ_CA_BUNDLE") or None
    problems = [*_url_problems(url), *_token_problems(token), *_bundle_problems(bundle)]
    if problems:
        raise ConfigurationError(problems)
    # A handler may go to another folder.
    return Settings(url.rstrip("/"), token, bundle and os.path.abspath(bundle))


def _url_problems(url: str) -> list[str]:
    if not url:
        return ["RVQ_URL is not set"]
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises ValueError when out of range
    except ValueError as error:
        return [f"RVQ_URL is not a URL: {error}"]
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ["RVQ_URL must start with http:// or https:// and name a host"]
    if "@" in parts.netloc or parts.query or parts.fragment or not url.isascii() or not url.isprintable():
        return ["RVQ_URL must have no credentials, query, fragment or odd characters"]
    return []


def _token_problems(token: str) -> list[str]:
    """Return what is wrong with the token, without showing it."""
    if not token:
        return ["RVQ_WORKER_TOKEN is not set"]
    if not (token.isascii() and token.isprintable()) or any(mark in token for mark in " ,"):
        return ["RVQ_WORKER_TOKEN must be one token of printable ASCII (no space, comma or newline)"]
    return []


def _bundle_problems(bundle: str | None) -> list[str]:
    if bundle is not None and not Path(bundle).is_file():
        return [f"RVQ_CA_BUNDLE names no file: {bundle}"]
    return []
