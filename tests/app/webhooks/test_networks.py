"""Which IP addresses are dialled, for which hosts."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.webhooks.addresses import AddressRefused, PrivateHost, check_address, parse_private_host
from app.webhooks.networks import DENIED_V4, DENIED_V6

DENIED = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1"),
    *("127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    *("::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808%1", "64:ff9b:1::1", "100::1", "2001::1"),
    *("2001:0:4136:e378::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::"),
    *(
        "3fff::1",
        "3fff:fff:ffff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
    ),
    *("fec0::1", "ff02::1", "2606:4700::1111%1"),
]
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.1", "168.63.129.15", "168.63.129.17", "169.253.255.255", "172.15.255.255", "172.32.0.0"),
    *("192.0.1.1", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"),
    *("64:ff9b::808:808", "64:ff9b::101:101", "64:ff9b::df00:1"),
    *("2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "3ffe::1", "3fff:1000::1"),
]


@pytest.mark.parametrize("ip", DENIED)
def test_an_address_that_is_not_public_is_refused(ip: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        check_address(ip, "hooks.example", ())
    assert caught.value.reason_code == "private_address"


@pytest.mark.parametrize("ip", PUBLIC)
def test_a_public_address_is_dialled_as_it_is(ip: str) -> None:
    assert check_address(ip, "hooks.example", ()) == ip


def test_a_public_address_in_an_ipv6_form_is_dialled_as_the_ipv4_address_it_is() -> None:
    assert check_address("::ffff:8.8.8.8", "hooks.example", ()) == "8.8.8.8"


@pytest.mark.parametrize(
    "text", ["", "localhost", "1.2.3", "1.2.3.4.5", "0x7f000001", "2130706433", "8.8.8.8 ", "::g"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        check_address(text, "hooks.example", ())
    assert caught.value.reason_code == "not_an_address"


PAIRS = (parse_private_host("hooks.internal=10.1.0.0/16"), parse_private_host("[::1]=::1/128"))


@pytest.mark.parametrize(
    ("ip", "host", "is_dialled"),
    [
        ("10.1.2.3", "hooks.internal", True),
        ("::ffff:10.1.2.3", "hooks.internal", True),
        ("10.2.0.1", "hooks.internal", False),
        ("127.0.0.1", "hooks.internal", False),
        ("10.1.2.3", "other.internal", False),
        ("10.1.2.3", "x.hooks.internal", False),
        ("::1", "::1", True),
        ("::1", "hooks.internal", False),
    ],
)
def test_a_private_address_is_dialled_only_for_the_host_it_is_paired_with(
    ip: str, host: str, is_dialled: bool
) -> None:
    try:
        check_address(ip, host, PAIRS)
    except AddressRefused:
        assert not is_dialled
    else:
        assert is_dialled


@pytest.mark.parametrize("network", DENIED_V4, ids=str)
def test_inward_addresses_behind_nat64_are_refused_and_the_refusal_names_them(
    network: ipaddress.IPv4Network,
) -> None:
    pair = parse_private_host(f"hooks.internal={network}")
    for address in (network[0], network[-1]):
        with pytest.raises(AddressRefused, match=f"NAT64 of {address}"):
            check_address(f"64:ff9b::{address}", "hooks.internal", (pair,))


def test_a_pair_that_names_addresses_of_nat64_is_still_good() -> None:
    pair = parse_private_host("hooks.internal=64:ff9b::/96")
    for ip in ("64:ff9b::a01:203", "64:ff9b::808:808"):
        assert check_address(ip, "hooks.internal", (pair,)) == ip
    with pytest.raises(AddressRefused):
        check_address("64:ff9b::a01:203", "other.internal", (pair,))


@pytest.mark.parametrize("network", [*DENIED_V4, *DENIED_V6], ids=str)
def test_a_whole_denied_network_is_denied_and_may_be_paired(network: ipaddress.IPv4Network) -> None:
    pair = parse_private_host(f"hooks.internal={network}")
    for address in (network[0], network[-1]):
        with pytest.raises(AddressRefused):
            check_address(str(address), "hooks.internal", ())
        assert check_address(str(address), "hooks.internal", (pair,)) == str(address)


@pytest.mark.parametrize(
    "cidr", ["0.0.0.0/0", "10.0.0.0/7", "8.8.8.0/24", "::/0", "2000::/3", "::ffff:0:0/96", "2606::/16"]
)
def test_a_pair_with_public_addresses_is_not_accepted(cidr: str) -> None:
    with pytest.raises(ValueError, match="public"):
        parse_private_host(f"hooks.internal={cidr}")


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_no_address_is_dialled_that_the_standard_library_knows_to_be_private(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    try:
        dialled = ipaddress.ip_address(check_address(str(address), "hooks.example", ()))
    except AddressRefused:
        return
    assert dialled.is_global
    assert not dialled.is_multicast


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_treated_alike_in_all_its_ipv6_forms(address: ipaddress.IPv4Address) -> None:
    def is_public(text: str) -> bool:
        try:
            check_address(text, "h", ())
        except AddressRefused:
            return False
        return True

    for prefix in ("::ffff:", "64:ff9b::"):
        assert is_public(prefix + str(address)) == is_public(str(address))
    for prefix in ("::", "64:ff9b:1::", "64:ff9b::1:0:0:", "::ffff:0:"):
        assert not is_public(prefix + str(address))
    assert not is_public(f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::1")
    assert not is_public(
        f"2001:0:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::{~int(address) & 0xFFFF:x}"
    )


def test_pairs_are_compared_as_values() -> None:
    assert PAIRS[0] == PrivateHost("hooks.internal", ipaddress.ip_network("10.1.0.0/16"))
    assert [str(pair) for pair in PAIRS] == ["hooks.internal=10.1.0.0/16", "[::1]=::1/128"]
