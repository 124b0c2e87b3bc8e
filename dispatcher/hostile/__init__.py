"""Receivers that do everything a receiver should not, by name, on real sockets.

from dispatcher.hostile import ALL, Authority, HostileReceiver

ALL            name -> Behaviour: what it does, and which outcomes a sound sender reports for it
BY_NAME        the same for receivers whose names resolve in hostile ways
HostileReceiver   one listener for one behaviour
Authority      certificates that are good, expired, for another name...
"""

from dispatcher.hostile.answers import ODD_ANSWERS
from dispatcher.hostile.behaviours import BEHAVIOURS, Behaviour
from dispatcher.hostile.certificates import Authority
from dispatcher.hostile.names import BY_NAME
from dispatcher.hostile.peer import Peer
from dispatcher.hostile.server import HostileReceiver
from dispatcher.hostile.tls_behaviours import TLS_BEHAVIOURS

ALL: dict[str, Behaviour] = {**BEHAVIOURS, **ODD_ANSWERS, **TLS_BEHAVIOURS}

__all__ = ["ALL", "BY_NAME", "Authority", "Behaviour", "HostileReceiver", "Peer"]
