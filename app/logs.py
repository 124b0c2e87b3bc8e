"""Structured logs: one line an entry, JSON for machines or text for people, never with a secret in it.

    log = logging.getLogger("rvq.dispatcher")
    log.info("delivered", extra={"delivery": "dlv_...", "attempt": 2})

Everything in `extra` becomes a field. Secrets of the settings are cut out of every line, wherever they
come from: a message, a field, or the text of an exception.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TextIO

import psycopg2
from psycopg2.extensions import parse_dsn

from app.settings.settings import LogFormat, Settings

REDACTED = "[secret]"
# What logging itself puts into a record; all other attributes came in through `extra`.
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def configure_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Send everything that is logged to `stream` (standard error), in the form the settings ask for."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(settings.log_format, secrets_of(settings)))
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    logging.captureWarnings(True)
    # At lower levels it logs every connection and request, with URLs.
    logging.getLogger("urllib3").setLevel(logging.WARNING)


def secrets_of(settings: Settings) -> list[str]:
    """Return every text that must not be shown, as it would appear."""
    secrets = [*settings.partner_tokens, *settings.worker_tokens, *settings.admin_tokens]
    keys = [*settings.webhook_secrets, settings.webhook_signing_key]
    secrets += [base64.b64encode(key).decode() for key in keys if key]
    try:
        secrets.append(parse_dsn(settings.database_url).get("password", ""))
    except psycopg2.Error:
        secrets.append(settings.database_url)
    return [secret for secret in secrets if secret]


class LineFormatter(logging.Formatter):
    """A formatter of records as JSON or text, which cuts out every secret."""

    def __init__(self, form: LogFormat, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._form = form
        # The longest first: one secret may contain another.
        self._secrets = sorted(secrets, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        line = self._json(record) if self._form == "json" else self._text(record)
        for secret in self._secrets:
            line = line.replace(secret, REDACTED)
        return line

    def _json(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)

    def _text(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_one_line(value)}" for name, value in _fields(record).items())
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{_moment(record)} {record.levelname.lower():7} {record.name}: {message}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


def _one_line(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and text and not set(text) & set(' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
