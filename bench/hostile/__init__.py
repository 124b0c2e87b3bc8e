"""Receivers that do everything a receiver should not, on real sockets, and the suite that `rvq hostile` runs.

The receivers, which the dispatcher's own tests use too:
    behaviours, responses, tls_behaviours   what each does, and which outcomes are right for it: ALL, by name
    names           receivers whose names resolve in hostile ways, BY_NAME, and the resolver
    server, peer    HostileReceiver, a listener for one behaviour, and its side of a connection
    certificates    Authority: certificates that are good, expired, for another name and so on

The suite:
    command         its command line; `runs` are its two runs, `checks` and `memory` what must hold
    stack           the RVQ under test; `dispatcher` is its dispatcher
    receivers       a listener for each behaviour; `healthy` is the host that does nothing wrong
    tasks           tasks that succeed at once, so that their webhooks are due
"""

from bench.hostile.behaviours import BEHAVIOURS, Behaviour
from bench.hostile.certificates import Authority
from bench.hostile.names import BY_NAME
from bench.hostile.peer import Peer
from bench.hostile.responses import ODD_RESPONSES
from bench.hostile.server import HostileReceiver
from bench.hostile.tls_behaviours import TLS_BEHAVIOURS

ALL: dict[str, Behaviour] = {**BEHAVIOURS, **ODD_RESPONSES, **TLS_BEHAVIOURS}

__all__ = ["ALL", "BY_NAME", "Authority", "Behaviour", "HostileReceiver", "Peer"]
