"""Receivers that do everything a receiver should not, by name, on real sockets.

from bench.hostile import ALL, Authority, HostileReceiver

ALL            name -> Behaviour: what it does, and which outcomes a sound sender reports for it
BY_NAME        the same for receivers whose names resolve in hostile ways
HostileReceiver   one listener for one behaviour
Authority      certificates that are good, expired, for another name...
"""

from bench.hostile.answers import ODD_ANSWERS
from bench.hostile.behaviours import BEHAVIOURS, Behaviour
from bench.hostile.certificates import Authority
from bench.hostile.names import BY_NAME
from bench.hostile.peer import Peer
from bench.hostile.server import HostileReceiver
from bench.hostile.tls_behaviours import TLS_BEHAVIOURS

ALL: dict[str, Behaviour] = {**BEHAVIOURS, **ODD_ANSWERS, **TLS_BEHAVIOURS}

__all__ = ["ALL", "BY_NAME", "Authority", "Behaviour", "HostileReceiver", "Peer"]
