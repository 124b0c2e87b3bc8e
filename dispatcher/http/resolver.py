"""Names are resolved in bounded time and with a bounded number of threads.

`getaddrinfo` takes no timeout and cannot be interrupted, so each look-up runs on a daemon thread of its
own, and whoever waits for it stops waiting in time. Attempts that want the same name at the same moment
share one look-up: a name server that never answers holds one thread, not one for each delivery.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

# Resolves a name, for a port, to addresses as text; raises OSError. Tests pass one that rebinds or stalls.
Resolver = Callable[[str, int], Sequence[str]]


class ResolutionFailed(Exception):
    """The name gave no address; the message says why."""


def system_resolver(host: str, port: int) -> Sequence[str]:
    """Return what this machine's resolver says, in its order of preference, each address once."""
    # As bytes, because a str would pass through Python's IDNA codec, which rewrites names.
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class BoundedResolver:
    """Resolves in time or fails. At most `most_at_once` look-ups run; thread-safe."""

    def __init__(self, resolver: Resolver = system_resolver, most_at_once: int = 64) -> None:
        self._resolver = resolver
        self._most_at_once = most_at_once
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[list[str]]] = {}

    def resolve(self, host: str, port: int, seconds: float) -> list[str]:
        """Return all addresses of `host`, at least one. Raises ResolutionFailed, within `seconds`."""
        try:
            addresses = self._look_up(host, port).result(seconds)
        except TimeoutError:
            raise ResolutionFailed(f"{host} did not resolve within {seconds:.1f} s") from None
        except OSError as error:
            raise ResolutionFailed(f"{host} does not resolve: {error.strerror or error}") from None
        if not addresses:
            raise ResolutionFailed(f"{host} resolves to no address")
        return addresses

    def _look_up(self, host: str, port: int) -> Future[list[str]]:
        """Return the look-up that runs for this name, or a new one."""
        with self._lock:
            running = self._running.get((host, port))
            if running is not None:
                return running
            if len(self._running) >= self._most_at_once:
                raise ResolutionFailed("too many names are being resolved and do not answer")
            future: Future[list[str]] = Future()
            self._running[host, port] = future
        name = f"resolve {host}"
        threading.Thread(target=self._run, args=(host, port, future), name=name, daemon=True).start()
        return future

    def _run(self, host: str, port: int, future: Future[list[str]]) -> None:
        try:
            addresses = list(self._resolver(host, port))
        except Exception as error:
            self._forget(host, port)
            future.set_exception(error if isinstance(error, OSError) else OSError(repr(error)))
        else:
            self._forget(host, port)
            future.set_result(addresses)

    def _forget(self, host: str, port: int) -> None:
        """Forget a look-up before its result is set: who asks after that wants a fresh one."""
        with self._lock:
            del self._running[host, port]
