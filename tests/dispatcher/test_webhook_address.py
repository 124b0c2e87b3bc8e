"""Which webhook addresses are accepted, and that nobody would dial an accepted one elsewhere."""

from __future__ import annotations

import pytest
import requests
import urllib3
from hypothesis import example, given, settings
from hypothesis import strategies as st
from requests.adapters import HTTPAdapter

from app.webhook_address import MAX_URL, AddressRefused, AllowedHost, Target, check_url, parse_allowed_host

ALLOWED = tuple(
    parse_allowed_host(entry)
    for entry in (
        "allowed.example",
        "allowed.example:8443",
        "http://plain.example",
        "http://127.0.0.1:9000",
        "[::1]:9",
    )
)


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


@pytest.mark.parametrize(
    "url",
    [
        # another host, port or scheme than the entry's
        "https://other.example/",
        "https://allowed.example:9/",
        "http://allowed.example/",
        "http://allowed.example:443/",
        "https://plain.example/",
        "https://127.0.0.1:9000/",
        "http://127.0.0.1/",
        "https://sub.allowed.example/",
        "https://allowed.example.evil.example/",
        "https://xallowed.example/",
        # one form only
        "https://allowed.example./",
        "https://allowed.example../",
        "https://.allowed.example/",
        "https://allowed..example/",
        # loopback in other clothes
        "http://2130706433:9000/",
        "http://0x7f000001:9000/",
        "http://0177.0.0.1:9000/",
        "http://127.1:9000/",
        "http://127.0.0.1.:9000/",
        "http://127.000.000.001:9000/",
        "http://0.0.0.0:9000/",
        "https://[::]:9/",
        "https://[0:0:0:0:0:0:0:1]:9/",
        "https://[::ffff:127.0.0.1]:9/",
        "https://[::127.0.0.1]:9/",
        "https://[64:ff9b::7f00:1]:9/",
        "https://[2002:7f00:1::]:9/",
    ],
)
def test_an_address_whose_host_is_not_exactly_an_entry_is_refused(url: str) -> None:
    assert refusal(url) == "host_not_allowed"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1\\@allowed.example/", "backslash"),
        ("https://allowed.example\\.evil.example/", "backslash"),
        ("https:\\\\allowed.example/", "backslash"),
        ("https://u:p@allowed.example/", "credentials"),
        ("https://@allowed.example/", "credentials"),
        ("https://a@b@allowed.example/", "credentials"),
        ("https://allowed.example@evil.example/", "credentials"),
        ("https://allowed.example/#x", "fragment"),
        ("https://allowed.example#@evil.example/", "credentials"),
        ("https://%61llowed.example/", "malformed"),
        ("https://allowed.example%2eevil.example/", "malformed"),
        ("https://allowed.example%00/", "malformed"),
        ("https://allowed\t.example/", "control_character"),
        ("https://allowed.example/\r\nHost: evil.example", "control_character"),
        ("ht\ntps://allowed.example/", "control_character"),
        (" https://allowed.example/", "control_character"),
        ("https://allowed.example/ ", "control_character"),
        ("https://allowed.example/\n", "control_character"),
        ("https://allowed.example/\x00", "control_character"),
        ("https://allowed.example/\x7f", "control_character"),
        ("https://ALLOWED.example/", "malformed"),
        ("HTTPS://allowed.example/", "scheme"),
        ("https://allowed.example:/", "malformed"),
        ("https://allowed.example:0/", "malformed"),
        ("https://allowed.example:00443/", "malformed"),
        ("https://allowed.example:+443/", "malformed"),
        ("https://allowed.example:-1/", "malformed"),
        ("https://allowed.example:443:443/", "malformed"),
        ("https://allowed.example:\uff14\uff14\uff13/", "not_ascii"),
        ("https://allowed.example:65979/", "host_not_allowed"),
        ("https://allowed.example:655360/", "malformed"),
        ("https://\u0430llowed.example/", "not_ascii"),
        ("https://allowed.example。/", "not_ascii"),
        ("https://faß.de/", "not_ascii"),
        ("https://allowed.example/\u212a", "not_ascii"),
        ("https://allowed.example/\u202e", "not_ascii"),
        ("https://allowed.example/\ud800", "not_ascii"),
        ("https://[::1]allowed.example/", "malformed"),
        ("https://[::1]:9allowed.example/", "malformed"),
        ("https://[fe80::1%25eth0]:9/", "malformed"),
        ("https://[::1/", "malformed"),
        ("https://::1:9/", "malformed"),
        ("http+unix://%2Fvar%2Frun%2Fx.sock/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://allowed.example/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("//allowed.example/", "scheme"),
        ("allowed.example", "scheme"),
        ("https:allowed.example/", "scheme"),
        ("https:///allowed.example/", "malformed"),
        ("https:////allowed.example/", "malformed"),
        ("https://allowed.example//evil.example/", "malformed"),
        ("https://allowed.example?x", "malformed"),
        ("https://allowed.example/%", "malformed"),
        ("https://allowed.example/%zz", "malformed"),
        ("https://allowed.example/<>", "malformed"),
        ("https://allowed.example/{x}|^`", "malformed"),
        ("https://allowed.example,evil.example/", "malformed"),
        ("https://allowed.example;evil.example/", "malformed"),
        ("https://*.example/", "malformed"),
        ("https://", "malformed"),
        ("https:///", "malformed"),
        ("", "scheme"),
        ("https://allowed.example/" + "x" * MAX_URL, "too_long"),
    ],
)
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
