"""A real Gunicorn, started as production starts it, called over sockets, stopped by signals."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from app.paths import ROOT, gunicorn_config
from tests.app.rig import Reply
from tests.support.concurrency import wait_until

STARTS_WITHIN, STOPS_WITHIN = 60, 40
# A process needs these variables, besides the settings of the contract.
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")


class Gunicorn:
    def __init__(self, settings: Mapping[str, str], folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._log = folder / f"gunicorn-{self.port}.log"
        surroundings = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        command = [sys.executable, "-m", "gunicorn", "-c", str(gunicorn_config()), "app.wsgi:app"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**surroundings, "APP_BIND": f"127.0.0.1:{self.port}", **settings},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_ready(self) -> None:
        """Wait until it answers."""

        def answers() -> bool:
            assert self.process.poll() is None, self.log
            with contextlib.suppress(OSError):
                return self.call("GET", "/healthz").status == 200
            return False

        wait_until(answers, "Gunicorn answers", STARTS_WITHIN)

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
        """Send one request, on a connection of its own; return the response."""
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
            response = b""
            while more := connection.recv(65536):
                response += more
            return response

    def children(self) -> list[int]:
        """Return the ids of the processes that serve."""
        pid = self.process.pid
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for the process to end, which something else must bring about; return its exit status."""
        return self.process.wait(STOPS_WITHIN)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
