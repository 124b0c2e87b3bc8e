"""Our own table says which IP addresses are public, because `ipaddress.is_global` is not enough.

Python 3.11 calls 64:ff9b::7f00:1 (NAT64 of 127.0.0.1), 2002:7f00:1:: (6to4 of it), multicast and the cloud
platform's 168.63.129.16 global. For IPv6 only 2000::/3 is in use, so all the rest is denied, but for NAT64.

IPv6 addresses that hold an IPv4 address, by kind:

- ::ffff:a.b.c.d (mapped) is that IPv4 address, and dialled as such.
- 64:ff9b::a.b.c.d (NAT64, RFC 6052) reaches it through a translator. Name servers of networks without IPv4
  make these up for every name that has an IPv4 address alone (DNS64). So the IPv4 address decides, and the
  IPv6 address is dialled.
- 64:ff9b:1::/48 (NAT64 of local use, RFC 8215) may lead anywhere within the network: denied.
- 2002::/16 (6to4), 2001::/32 (Teredo), ::a.b.c.d and ::ffff:0:a.b.c.d are no longer in use: denied.
- NAT64 under a prefix of a network's own can't be told from other addresses; its translator has to refuse
  what is private (RFC 6052 asks for that of 64:ff9b::/96 alone).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

DENIED_V4: Final = {
    IPv4Network("0.0.0.0/8"): "this network",
    IPv4Network("10.0.0.0/8"): "private",
    IPv4Network("100.64.0.0/10"): "carrier NAT",
    IPv4Network("127.0.0.0/8"): "loopback",
    IPv4Network("168.63.129.16/32"): "cloud platform",
    IPv4Network("169.254.0.0/16"): "link local, cloud metadata",
    IPv4Network("172.16.0.0/12"): "private",
    IPv4Network("192.0.0.0/24"): "protocol assignments",
    IPv4Network("192.0.2.0/24"): "documentation",
    IPv4Network("192.88.99.0/24"): "6to4 relay",
    IPv4Network("192.168.0.0/16"): "private",
    IPv4Network("198.18.0.0/15"): "benchmarking",
    IPv4Network("198.51.100.0/24"): "documentation",
    IPv4Network("203.0.113.0/24"): "documentation",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved, broadcast",
}
PUBLIC_V6: Final = IPv6Network("2000::/3")
DENIED_V6: Final = {
    IPv6Network("2001::/23"): "protocol assignments, Teredo",
    IPv6Network("2001:db8::/32"): "documentation",
    IPv6Network("2002::/16"): "6to4",
    IPv6Network("3fff::/20"): "documentation",
}
MAPPED_V4: Final = IPv6Network("::ffff:0:0/96")
NAT64: Final = IPv6Network("64:ff9b::/96")


def unwrapped(address: Address) -> Address:
    """Return a.b.c.d for ::ffff:a.b.c.d: it reaches that, so it is checked, and dialled, as that."""
    return getattr(address, "ipv4_mapped", None) or address


def why_not_public(address: Address) -> str | None:
    """Return the kind of this address, unwrapped before, or None when it is of the public internet."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in DENIED_V4.items() if address in network), None)
    if address.scope_id is None and address in NAT64:
        v4 = IPv4Address(address.packed[12:])
        why = why_not_public(v4)
        return why and f"NAT64 of {v4}: {why}"
    if address.scope_id is not None or address not in PUBLIC_V6:
        return "outside 2000::/3"
    return next((why for network, why in DENIED_V6.items() if address in network), None)


def holds_public_addresses(network: Network) -> bool:
    """Return whether any address of this network is public, or is an IPv4 address written as IPv6.

    Those of NAT64 don't count, since pairs that name them were needed before 0.2.0.
    """
    if isinstance(network, IPv4Network):
        return not any(network.subnet_of(denied) for denied in DENIED_V4)
    if network.overlaps(MAPPED_V4):
        return True
    return network.overlaps(PUBLIC_V6) and not any(network.subnet_of(denied) for denied in DENIED_V6)
