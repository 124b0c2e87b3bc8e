"""The notify protocol of systemd: datagrams to the socket that the environment names."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)


class Notifier:
    """Tells the service manager how this process is; does nothing where there is none. Never raises."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in the abstract name space.
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if name else None
        if self._socket:
            self._socket.setblocking(False)
        self._watchdog_seconds = _watchdog_seconds(environ)
        self._fed = 0.0

    def ready(self) -> None:
        self.send("READY=1")

    def stopping(self) -> None:
        self.send("STOPPING=1")

    def status(self, text: str) -> None:
        self.send(f"STATUS={text}")

    def feed_watchdog(self) -> None:
        """Say that the process is alive. May be called often: four notices an interval are sent at most."""
        if self._watchdog_seconds is None:
            return
        now = time.monotonic()
        if now - self._fed >= self._watchdog_seconds / 4:
            self._fed = now
            self.send("WATCHDOG=1")

    def send(self, message: str) -> None:
        if self._socket is not None:
            try:
                self._socket.sendto(message.encode(), self._address)
            except OSError as error:
                log.warning("the service manager did not take a notice: %s", error)


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """Return the unit's WatchdogSec=, if it is meant for this process."""
    text, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not text.isdigit() or int(text) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1_000_000
