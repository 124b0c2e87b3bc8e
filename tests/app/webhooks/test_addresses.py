"""Which webhook addresses are accepted, and that nobody would dial an accepted one elsewhere."""

from __future__ import annotations

import pytest
import requests
import urllib3
from hypothesis import example, given, settings
from hypothesis import strategies as st
from requests.adapters import HTTPAdapter

from app.webhooks.addresses import AddressRefused, AllowedHost, Target, check_url, parse_allowed_host
from tests.dispatcher.refused_urls import ALLOWED_HOSTS, OTHER_FORMS, OTHER_HOSTS

ALLOWED = tuple(map(parse_allowed_host, ALLOWED_HOSTS))


def refusal(url: str) -> str:
    with pytest.raises(AddressRefused) as caught:
        check_url(url, ALLOWED)
    return caught.value.reason_code


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (
            "https://allowed.example",
            Target("https", "allowed.example", 443, "/", "allowed.example:443", "allowed.example"),
        ),
        (
            "https://allowed.example:443/a/b?c=d&e",
            Target("https", "allowed.example", 443, "/a/b?c=d&e", "allowed.example:443", "allowed.example"),
        ),
        (
            "https://allowed.example:8443/",
            Target("https", "allowed.example", 8443, "/", "allowed.example:8443", "allowed.example:8443"),
        ),
        (
            "http://plain.example/%20x",
            Target("http", "plain.example", 80, "/%20x", "plain.example:80", "plain.example"),
        ),
        (
            "http://127.0.0.1:9000/h",
            Target("http", "127.0.0.1", 9000, "/h", "127.0.0.1:9000", "127.0.0.1:9000"),
        ),
        ("https://[::1]:9/h", Target("https", "::1", 9, "/h", "[::1]:9", "[::1]:9")),
    ],
)
def test_an_address_in_the_accepted_form_is_taken_apart(url: str, target: Target) -> None:
    assert check_url(url, ALLOWED) == target


@pytest.mark.parametrize("url", OTHER_HOSTS)
def test_an_address_whose_host_is_not_exactly_an_entry_is_refused(url: str) -> None:
    assert refusal(url) == "host_not_allowed"


@pytest.mark.parametrize(("url", "reason"), OTHER_FORMS)
def test_an_address_in_any_other_form_is_refused_with_a_reason(url: str, reason: str) -> None:
    assert refusal(url) == reason


def test_a_refusal_does_not_tell_the_list() -> None:
    with pytest.raises(AddressRefused) as caught:
        check_url("https://evil.example/", ALLOWED)
    assert not any(entry.host in caught.value.detail for entry in ALLOWED)


URL_PIECES = st.sampled_from(
    [
        *("https://", "http://", "allowed.example", "plain.example", "127.0.0.1", "[::1]", "evil.example"),
        *("//", ":443", ":80", ":9", ":9000", "%61", "%2f", "%40", "..", "0x7f.1", "2130706433"),
        *"@\\/#?:%.;,&=[]~'(!*+-_xA \t\n\0\u00e9\u3002\u017f",
    ]
)
ANY_URL = st.one_of(
    st.lists(URL_PIECES, max_size=12).map("".join),
    st.lists(URL_PIECES, max_size=8).map(lambda pieces: "https://allowed.example" + "".join(pieces)),
    st.text(max_size=60).map(lambda text: "https://allowed.example/" + text),
    st.text(max_size=60),
)


@settings(max_examples=3000, deadline=None)
@given(ANY_URL)
@example("https://allowed.example/..%2f..//@x")
@example("https://allowed.example:443/;@evil.example")
def test_no_accepted_address_is_dialled_elsewhere_by_urllib3_or_requests(url: str) -> None:
    try:
        target = check_url(url, ALLOWED)
    except AddressRefused:
        return
    dialled = (target.scheme, target.host, target.port)
    assert AllowedHost(*dialled) in ALLOWED
    pool = urllib3.connection_from_url(url)
    assert (pool.scheme, pool.host.strip("[]"), pool.port) == dialled
    prepared = requests.Request("POST", url).prepare()
    by_requests = HTTPAdapter().get_connection_with_tls_context(prepared, True)
    assert (by_requests.scheme, by_requests.host.strip("[]"), by_requests.port or pool.port) == dialled
    assert "Authorization" not in prepared.headers
    assert target.path_and_query.startswith("/")
    assert target.path_and_query.isascii()
    assert target.path_and_query.isprintable()
