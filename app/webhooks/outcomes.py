"""How a delivery attempt can end: the one list that dispatcher, API, metrics and documentation share."""

from __future__ import annotations

from typing import Final, Literal, get_args

Outcome = Literal[
    "delivered",  # 2xx
    "gone",  # 410: the receiver wants no more
    "http_error",  # any other status; a redirect is one, and is not followed
    "timeout",  # time was up before the request was sent whole
    "unknown",  # sent whole, but no response came: the receiver may have acted on it
    "dns_error",  # the name does not resolve, or not in time
    "refused",  # nobody listens at the address
    "connect_error",  # any other failure before the request was sent whole
    "tls_error",  # no TLS connection with a certificate for this name
    "protocol_error",  # sent, but what came back is not HTTP/1
    "blocked",  # the name resolves to an address that may not be dialled
    "not_allowed",  # the stored URL is not, or no longer, on the list
    "internal_error",  # a fault of our own, logged
]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)

# The receiver sent a response, whatever it says. Any other outcome counts towards opening the breaker.
ANSWERED: Final[frozenset[Outcome]] = frozenset({"delivered", "gone", "http_error"})
