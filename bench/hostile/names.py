"""Names that resolve in hostile ways, and the resolver that answers for them.

`PAIRS` says which addresses their hosts may have; the receivers listen on 127.0.0.1. Where an answer leads
inwards it leads to TRAP: somebody may listen there, and must see no connection.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from bench.hostile.behaviours import BEHAVIOURS, Behaviour
from bench.hostile.peer import Peer

HERE, TRAP = "127.0.0.1", "127.0.0.2"
_LONGER_THAN_ANY_LIMIT = 3600.0


def _always(*addresses: str) -> Callable[[], Sequence[str]]:
    return lambda: addresses


def _alternating(*answers: Sequence[str]) -> Callable[[], Sequence[str]]:
    turns: Iterator[Sequence[str]] = itertools.cycle(answers)
    lock = threading.Lock()

    def answer() -> Sequence[str]:
        with lock:
            return next(turns)

    return answer


def _failing(code: int) -> Callable[[], Sequence[str]]:
    def answer() -> Sequence[str]:
        raise socket.gaierror(code, "made up")

    return answer


def _stalled() -> Sequence[str]:
    time.sleep(_LONGER_THAN_ANY_LIMIT)
    return [HERE]


_ANSWERS: dict[str, Callable[[], Sequence[str]]] = {
    "hooks.test": _always(HERE),
    "rebinding.test": _alternating([HERE], [TRAP]),
    "mixed.test": _always(HERE, TRAP),
    "mixed-last.test": _always(*[f"127.0.1.{n}" for n in range(1, 100)], TRAP),
    "inward.test": _always(TRAP),
    "metadata.test": _always("169.254.169.254"),
    "mapped.test": _always("::ffff:" + TRAP),
    "translated.test": _always("64:ff9b::7f00:2"),
    "unspecified.test": _always("0.0.0.0"),
    "scoped.test": _always("fe80::1%1"),
    "nonsense.test": _always("no address"),
    "nowhere.test": _always(),
    "unknown.test": _failing(socket.EAI_NONAME),
    "broken.test": _failing(socket.EAI_FAIL),
    "stalled.test": _stalled,
    "dead-first.test": _always("127.0.1.1", HERE),
    "all-dead.test": _always(*[f"127.0.1.{n}" for n in range(1, 200)]),
}
# For APP_WEBHOOK_PRIVATE_HOSTS: all may be here and at 127.0.1.x, where nobody listens; none may be at TRAP.
PAIRS = [f"{name}={network}" for name in _ANSWERS for network in (f"{HERE}/32", "127.0.1.0/24")]

INWARD = ("mixed", "mixed-last", "inward", "metadata", "mapped", "translated")
BLOCKED = (*INWARD, "unspecified", "scoped", "nonsense")
UNRESOLVED = ("nowhere", "unknown", "broken", "stalled")


def resolve(host: str, _port: int) -> Sequence[str]:
    """Resolve a name as the dispatcher's resolver does. Raises OSError for one that is not of the suite."""
    if host not in _ANSWERS:
        raise socket.gaierror(socket.EAI_NONAME, "not a name of the suite")
    return _ANSWERS[host]()


def _one_answer(peer: Peer) -> None:
    """Respond and end the connection, so that the name is looked up for each attempt."""
    peer.request()
    peer.answer("200 OK", "Connection: close")


_NAMED = Behaviour(_one_answer, ("delivered",))
BY_NAME: dict[str, Behaviour] = {
    "name-rebinding": replace(_NAMED, host="rebinding.test"),
    "name-dead-first": replace(_NAMED, host="dead-first.test"),
    "name-all-dead": replace(BEHAVIOURS["good"], host="all-dead.test", outcomes=("refused",)),
    **{f"name-{name}": replace(_NAMED, host=f"{name}.test", outcomes=("blocked",)) for name in BLOCKED},
    **{f"name-{name}": replace(_NAMED, host=f"{name}.test", outcomes=("dns_error",)) for name in UNRESOLVED},
}
