"""Where a webhook may go: the exact list of hosts and the one accepted spelling of an address.

The API asks this leaf module when a task is created. The dispatcher asks it again at each try, because the
stored row may have changed in between. There are two questions, and the name is resolved between them:

`check_url`: is this text one of the addresses that the operator listed? It is matched as raw text before
any URL parser sees it, because parsers differ: for `http://127.0.0.1\\@allowed/`, urlsplit says `allowed`
and requests dials 127.0.0.1. Every other spelling is refused, never repaired.

`check_address`: may this IP address be dialled for this host? Public ones may, others only with a pair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from app.webhooks.networks import Network, holds_public_addresses, unwrapped, why_not_public

MAX_URL: Final = 2048
DEFAULT_PORTS: Final = {"https": 443, "http": 80}

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"\A{_LABEL}(?:\.{_LABEL})*\Z")
# What inet_aton and browsers read as a number: `2130706433`, `0x7f000001`, `127.1`, `0177.0.0.1`.
_ENDS_IN_NUMBER = re.compile(r"(?:\A|\.)(?:[0-9]+|0x[0-9a-f]*)\Z")
_HOST = r"\[[0-9a-f:.]+\]|[a-z0-9.-]+"
_PORT = r"[1-9][0-9]{0,4}"
_ENTRY = re.compile(rf"\A(?:(https?)://)?({_HOST})(?::({_PORT}))?\Z")
_PATH_AND_QUERY = r"/(?!/)(?:[A-Za-z0-9._~!$&'()*+,;=:/?-]|%[0-9A-Fa-f]{2})*"
_URL = re.compile(rf"\A(https?)://({_HOST})(?::({_PORT}))?((?:{_PATH_AND_QUERY})?)\Z")


class AddressRefused(Exception):
    """A webhook may not go there. `reason_code` is of a closed set, `detail` is a clause for the partner."""

    def __init__(self, reason_code: str, detail: str) -> None:
        super().__init__(detail)
        self.reason_code = reason_code
        self.detail = detail


@dataclass(frozen=True, slots=True, order=True)
class AllowedHost:
    """One entry of APP_WEBHOOK_ALLOWED_HOSTS; `host` is a lower-case name or an IP without brackets."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class PrivateHost:
    """One pair of APP_WEBHOOK_PRIVATE_HOSTS: for `host`, addresses in `network` are dialled too."""

    host: str
    network: Network

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}={self.network}"


@dataclass(frozen=True, slots=True)
class Target:
    """An accepted URL in its parts. `host_key` (`host:port`) is what windows and breakers count by."""

    scheme: str
    host: str
    port: int
    path_and_query: str
    host_key: str
    host_header: str


def parse_allowed_host(text: str) -> AllowedHost:
    """Read `hooks.example`, `hooks.example:8443` or `http://127.0.0.1:9000`.

    Raise ValueError with what is wrong, but without the text: somebody may have written a password into it.
    """
    match = _ENTRY.match(text)
    if match is None:
        raise ValueError("must be host[:port] or http://host[:port], lower-case ASCII")
    scheme, host, port = match[1] or "https", _parse_host(match[2]), int(match[3] or 0)
    if port > 65535:
        raise ValueError("must have a port of at most 65535")
    return AllowedHost(scheme, host, port or DEFAULT_PORTS[scheme])


def parse_private_host(text: str) -> PrivateHost:
    """Read `hooks.internal=10.1.2.0/24`, with no public address in it. Raise ValueError saying why not."""
    host, _, cidr = text.partition("=")
    try:
        network = ip_network(cidr)
    except ValueError:
        raise ValueError("must be host=cidr, like hooks.internal=10.1.0.0/16") from None
    if holds_public_addresses(network):
        raise ValueError("must name a network without public addresses, which need no entry")
    return PrivateHost(_parse_host(host), network)


@lru_cache(maxsize=1024)
def check_url(url: str, allowed: tuple[AllowedHost, ...]) -> Target:
    """Return the target of `url`. Raise AddressRefused unless it is well spelt and its host is listed.

    Recent results are cached (refusals are not), since a partner's tasks mostly name the same URL.
    """
    _refuse_suspicious_text(url)
    match = _URL.match(url)
    if match is None:
        raise AddressRefused("malformed", "it is not scheme://host[:port][/path][?query] in URL characters")
    scheme, host, port = match[1], match[2].strip("[]"), int(match[3] or DEFAULT_PORTS[match[1]])
    if AllowedHost(scheme, host, port) not in allowed:
        raise AddressRefused("host_not_allowed", f"{scheme}://{match[2]}:{port} is not on the list of hosts")
    _assert_parsers_agree(url, scheme, host, port)
    host_key = f"{match[2]}:{port}"
    host_header = match[2] if port == DEFAULT_PORTS[scheme] else host_key
    return Target(scheme, host, port, match[4] or "/", host_key, host_header)


def check_address(ip: str, host: str, private_hosts: tuple[PrivateHost, ...]) -> str:
    """Return the address to dial for `ip`, to which `host` resolved. Raise AddressRefused if none may be."""
    try:
        address = unwrapped(ip_address(ip))
    except ValueError:
        raise AddressRefused("not_an_address", f"{ip!r} is not an IP address") from None
    why = why_not_public(address)
    if why and not any(pair.host == host and address in pair.network for pair in private_hosts):
        raise AddressRefused("private_address", f"{address} is not a public address ({why})")
    return str(address)


def _refuse_suspicious_text(url: str) -> None:
    """Refuse with a reason that helps what the pattern would refuse too."""
    if len(url) > MAX_URL:
        raise AddressRefused("too_long", f"it is longer than {MAX_URL} characters")
    if not url.isascii():
        raise AddressRefused("not_ascii", "it has characters outside ASCII; write a name in its xn-- form")
    if not url.isprintable() or " " in url:
        raise AddressRefused("control_character", "it has spaces or control characters")
    if "\\" in url:
        raise AddressRefused("backslash", "it has a backslash")
    if "@" in url:
        raise AddressRefused("credentials", "it has an @; credentials are refused (in a path, write %40)")
    if "#" in url:
        raise AddressRefused("fragment", "it has a fragment (#)")
    if not url.startswith(("https://", "http://")):
        raise AddressRefused("scheme", "it must start with https:// (or http://, where the list says so)")


def _assert_parsers_agree(url: str, scheme: str, host: str, port: int) -> None:
    """Check, as a second line of defence, that both parsers would dial what the pattern matched."""
    try:
        split, parsed = urlsplit(url), parse_url(url)
        by_urlsplit = (split.scheme, split.hostname, split.port or DEFAULT_PORTS[scheme], split.username)
    except (ValueError, LocationParseError):
        raise AddressRefused("parsers_disagree", "a URL parser refuses it") from None
    parsed_host = (parsed.host or "").strip("[]")
    by_urllib3 = (parsed.scheme, parsed_host, parsed.port or DEFAULT_PORTS[scheme], parsed.auth)
    if not by_urlsplit == by_urllib3 == (scheme, host, port, None):
        raise AddressRefused("parsers_disagree", "URL parsers read it differently")


def _parse_host(text: str) -> str:
    """Return a host in its one accepted spelling, without brackets. Raise ValueError."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if bare == text and not _ENDS_IN_NUMBER.search(text):
        if len(text) > 253 or _NAME.match(text) is None:
            raise ValueError("must have a host name in lower-case ASCII, no dot at its end, no wildcard")
        return text
    try:
        address = ip_address(bare)
    except ValueError:
        raise ValueError("has a host that looks like an IP address but is none") from None
    is_v6 = isinstance(address, IPv6Address)
    if is_v6 != (bare != text) or str(address) != bare or unwrapped(address) != address:
        raise ValueError("must have its IP address in the shortest form, IPv6 in brackets")
    return bare


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
