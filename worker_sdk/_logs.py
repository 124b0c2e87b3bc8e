"""Log lines on stderr, for people or for programs.

Only the command line and `run()` set this up; a program that embeds `Worker` keeps its own logging.
"""

import contextlib
import json
import logging
import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@dataclass(frozen=True)
class Logs:
    """How to log; also sent to the handlers' processes."""

    level: str = "info"
    format: Literal["text", "json"] = "text"


DEFAULT_LOGS = Logs()
_current: Logs | None = None


def configure_logs(logs: Logs) -> None:
    """Set up the root logger, unless the program has done so itself."""
    global _current
    _current = logs
    if logging.getLogger().handlers:
        return
    handler = StandardError()
    handler.setFormatter(JSONFormatter() if logs.format == "json" else TextFormatter())
    logging.basicConfig(level=logs.level.upper(), handlers=[handler])


def current_logs() -> Logs | None:
    return _current


class Logger(logging.LoggerAdapter[logging.Logger]):
    """The SDK's logger. A line that can't be written is lost, and no result or heartbeat with it."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        with contextlib.suppress(Exception):
            super().log(level, msg, *args, **kwargs)


logger = Logger(logging.getLogger("worker_sdk"), {})


class StandardError(logging.StreamHandler[Any]):
    """Standard error itself, whatever a handler does to `sys.stderr`."""

    def __init__(self) -> None:
        super().__init__(os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  a name of logging
        """Lose the line."""


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")


class JSONFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields of `extra`, the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name, value in vars(record).items() if name not in _ORDINARY})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
