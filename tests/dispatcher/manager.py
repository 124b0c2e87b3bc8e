"""The service manager's end of the notify protocol."""

from __future__ import annotations

import contextlib
import socket


class Manager:
    """Plays systemd: keeps what it was told, so far."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)
        self._told: list[str] = []

    def told(self) -> list[str]:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._told.append(self._socket.recv(4096).decode())
        return self._told

    def statuses(self) -> int:
        """How many status notices there were."""
        return sum(notice.startswith("STATUS=") for notice in self.told())

    def close(self) -> None:
        self._socket.close()
