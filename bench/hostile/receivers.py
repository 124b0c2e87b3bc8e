"""One listener for each behaviour, and a trap at each address that a name must not lead to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.hostile import Authority, Behaviour, HostileReceiver
from bench.hostile.behaviours import good
from bench.hostile.names import TRAP

NAME = "hooks.test"


@dataclass
class Listeners:
    """`urls` and `origins` (for the allowlist) by behaviour; nobody may ever connect to `traps`."""

    ca_file: Path
    urls: dict[str, str]
    origins: list[str]
    traps: list[HostileReceiver]

    def trapped(self) -> int:
        """Return the number of connections that should not have been made."""
        return sum(trap.connections for trap in self.traps)


@contextlib.contextmanager
def listening(behaviours: Mapping[str, Behaviour], folder: Path) -> Iterator[Listeners]:
    """Listen with all of them, on loopback, until the end of the block."""
    authority = Authority(folder, NAME)
    with contextlib.ExitStack() as stack:
        found = Listeners(authority.ca_file, {}, [], [])
        for name, behaviour in behaviours.items():
            tls = authority.server_context(behaviour.certificate) if behaviour.certificate else None
            receiver = stack.enter_context(HostileReceiver(behaviour.serve, tls))
            origin = f"{behaviour.scheme}://{behaviour.host}:{receiver.port}"
            found.urls[name] = f"{origin}/hook"
            found.origins.append(origin)
            if behaviour.host != NAME:
                trap = HostileReceiver(good, address=(TRAP, receiver.port))
                found.traps.append(stack.enter_context(trap))
        yield found
