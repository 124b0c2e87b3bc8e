"""Payload bytes come out of a claim's response exactly as they went in."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker_sdk._json import array_of, as_written, check, decode, decoded, object_of

# The machine may be busy: how long an example takes says nothing here.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

WHITESPACE = st.text(alphabet=" \t\n\r", max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
STYLES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"indent": 3}, {"separators": (",", ":")}, {"ensure_ascii": False}]
)
TRICKY = [
    "1.10", "1e2", "-0", "-0.0", "9007199254740993", "1E+400", '"\\u0000"', '"\\ud800"', '{"a":1,"a":2}',
    '"]},{\\"\\\\"', "[[]]", "{}", "[]", '""', '{"}": "{"}', '"\\\\"', '"é\U0001f600"', "true", "null",
]  # fmt: skip


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """Draw one JSON value as somebody may have written it."""
    if draw(st.booleans()):
        return draw(st.sampled_from(TRICKY)).encode()
    value: Any = draw(VALUES)
    style: dict[str, Any] = draw(STYLES)
    return json.dumps(value, **style).encode("utf-8", "surrogatepass")


ARRAY = array_of(as_written)
OBJECT = object_of("index", payload=as_written)
LEVELS = 64  # as deep as RVQ stores


def padded(values: list[bytes], gaps: list[str]) -> list[bytes]:
    left, right = (gap.encode() for gap in gaps)
    return [left + value + right for value in values]


@unhurried
@given(st.lists(written(), max_size=6), st.lists(WHITESPACE, min_size=4, max_size=4))
def test_an_array_is_cut_into_the_very_bytes_it_was_made_of(values: list[bytes], gaps: list[str]) -> None:
    before, after = (gap.encode() for gap in gaps[:2])
    inner = b",".join(padded(values, gaps[2:]))
    assert decode(before + b"[" + inner + b"]" + after, ARRAY) == values


@unhurried
@given(st.dictionaries(st.text(), written(), max_size=6), WHITESPACE)
def test_an_object_is_cut_into_the_very_bytes_it_was_made_of(members: dict[str, bytes], gap: str) -> None:
    space = gap.encode()
    pieces = [space + json.dumps(k).encode() + space + b":" + space + v + space for k, v in members.items()]
    whole = space + b"{" + b",".join(pieces) + b"}" + space
    assert decode(whole, object_of(**dict.fromkeys(members, as_written))) == members


@unhurried
@given(written(), written(), WHITESPACE)
def test_members_that_nobody_asked_for_are_left_out(payload: bytes, other: bytes, gap: str) -> None:
    inner = b",".join(padded([b'"other":' + other, b'"payload":' + payload, b'"index":7'], [gap, gap]))
    assert decode(b"{" + inner + b"}", OBJECT) == {"payload": payload, "index": 7}


@unhurried
@given(written(), st.data())
def test_a_cut_text_is_an_error_and_never_a_shorter_value(value: bytes, data: st.DataObject) -> None:
    whole = b'{"payload":' + value + b"}"
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ValueError):
        decode(cut, OBJECT)


@unhurried
@given(st.binary(max_size=40))
def test_any_bytes_at_all_give_a_value_or_a_value_error(noise: bytes) -> None:
    for read in (ARRAY, OBJECT, decoded, as_written):
        with contextlib.suppress(ValueError):
            decode(noise, read)


@pytest.mark.parametrize(
    "payload",
    [
        b"[" * LEVELS + b"]" * LEVELS,
        b'{"a":' * LEVELS + b"1" + b"}" * LEVELS,
        b"9" * 10_000,
        b"-" + b"9" * 10_000 + b"." + b"9" * 10_000 + b"e-" + b"9" * 10_000,
        b"-0",
        b"1E+400",
        b'"\\u005c\\"\\/\\b\\ud83d\\ude00\\ude00\\ud83d"',
        '"\U0001f600\u2028\xa0\x7f\ufeff"'.encode(),
        b' \t\r\n{ \t"a"\r:\n[ 1 , 2 ] , "a" : { } , "" : [ ] } ',
        b'{"payload":{"payload":1},"payload":2}',
    ],
)
def test_a_payload_is_kept_whatever_it_holds(payload: bytes) -> None:
    text = b'{"index":0,"payload":' + payload + b"}"
    assert decode(text, OBJECT)["payload"] == payload.strip()
    assert decode(b"[" + text + b"]", array_of(OBJECT))[0]["payload"] == payload.strip()
    check(payload)


def test_a_name_may_be_written_with_escapes_and_of_two_that_are_the_same_the_last_counts() -> None:
    text = b'{"p\\u0061yload": 1, "index": 2, "\\u0069ndex": 3, "payload": "\\"}"}'
    assert decode(text, OBJECT) == {"payload": b'"\\"}"', "index": 3}


def test_far_too_deep_is_an_error_and_no_crash() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    for read in (OBJECT, ARRAY, as_written):
        with pytest.raises(ValueError):
            decode(b'{"payload": ' + deep + b"}", read)


NOT_JSON = [
    b"", b" ", b"NaN", b"[Infinity]", b"-Infinity", b"1 2", b"{", b"\xff", b"\xef\xbb\xbf1",
    b"01", b"1.", b".1", b"+1", b"-", b"1e", b"0x1", b"'a'", b'"a', b'"\\x"', b'"\\u12"', b'"\n"', b'"\0"',
    b"[1,]", b'{"a":1,}',
    b"[1 2]", b"[,]", b"{,}", b'{"a"}', b'{"a":}', b"{1:2}", b"{[]:2}", b"[1,", b"[1]]", b"{}}", b"[}", b"{]",
    b'{"a" 1}', b'{"a":1 "b":2}', b"nul", b"nulll", b"True", b"\xa01", b"\x0c1", b"1\0", b'"\xed\xa0\x80"',
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json_is_refused_wherever_it_stands(text: bytes) -> None:
    with pytest.raises(ValueError):
        check(text)
    for around, read in ((b"%b", ARRAY), (b"%b", OBJECT), (b"[%b]", ARRAY), (b'{"payload":%b}', OBJECT)):
        if around % text not in (b"[]", b"[ ]"):
            with pytest.raises(ValueError):
                decode(around % text, read)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (b"[]x", "array"), (b"[] []", "array"), (b"{}", "array"), (b'"[]"', "array"), (b"null", "array"),
        (b"\xef\xbb\xbf[]", "array"), (b"{}x", "object"), (b"{} {}", "object"), (b"[]", "object"),
        (b"7", "object"), (b"\xef\xbb\xbf{}", "object"),
    ],
)  # fmt: skip
def test_what_is_no_array_or_object_is_refused(text: bytes, shape: str) -> None:
    with pytest.raises(ValueError):
        decode(text, {"array": ARRAY, "object": OBJECT}[shape])


def test_a_number_of_any_length_is_json() -> None:
    check(b"9" * 100_000)
