"""A real Gunicorn, started as production starts it, called over sockets, stopped by signals."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from rvq.local.stack import is_ready, launch_api
from rvq.ports import free_port
from tests.app.rig import Reply

STARTS_WITHIN, STOPS_WITHIN = 60, 40


# Arguments of Gunicorn besides its configuration, by server: gthread as it is without the extra `fast`.
SERVERS = {"fast": "", "gthread": "--worker-class gthread --http-parser python"}


class Gunicorn:
    """A running Gunicorn. `server` is our worker ("fast") or Gunicorn's own threads ("gthread")."""

    def __init__(self, settings: Mapping[str, str], folder: Path, server: str = "fast") -> None:
        self.port = free_port()
        self._bind = f"127.0.0.1:{self.port}"
        self._log = folder / f"gunicorn-{self.port}.log"
        self.process = launch_api(
            {"APP_BIND": self._bind, "GUNICORN_CMD_ARGS": SERVERS[server], **settings}, self._log
        )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_ready(self) -> None:
        """Wait until it responds."""
        self.process.wait_until(lambda: is_ready(self._bind, "/healthz"), STARTS_WITHIN)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Reply:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            fields = {"Content-Type": "application/json", **(headers or {})}
            if token:
                fields["Authorization"] = f"Bearer {token}"
            connection.request(method, urllib.parse.quote(path, "/?=&%"), body, fields)
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())

    def talk(self, *pieces: bytes, half_close: bool = False) -> bytes:
        """Send bytes as they are; return everything that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            for piece in pieces:
                connection.sendall(piece)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            while more := connection.recv(65536):
                received += more
            return received

    def children(self) -> list[int]:
        """Return the processes that serve."""
        pid = self.process.pid
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def memory(self, line: str = "VmRSS") -> int:
        """Return the bytes of memory that its one process has now; `VmHWM`: that it ever had at most."""
        (child,) = self.children()
        status = Path(f"/proc/{child}/status").read_text()
        return 1024 * int(status.partition(f"{line}:")[2].split()[0])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the master alone."""
        self.process.signal(number)

    def wait(self) -> int:
        """Wait for the process to end, which something else must bring about; return its exit status."""
        return self.process.wait(STOPS_WITHIN)

    def stop(self) -> None:
        self.process.stop(STOPS_WITHIN)
