"""Payload bytes come out of a claim's answer exactly as they went in."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker_sdk import _json

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
    """One JSON value as somebody may have written it."""
    if draw(st.booleans()):
        return draw(st.sampled_from(TRICKY)).encode()
    value: Any = draw(VALUES)
    style: dict[str, Any] = draw(STYLES)
    return json.dumps(value, **style).encode("utf-8", "surrogatepass")


@unhurried
@given(st.lists(written(), max_size=6), st.lists(WHITESPACE, min_size=4, max_size=4))
def test_an_array_is_cut_into_the_very_bytes_it_was_made_of(values: list[bytes], gaps: list[str]) -> None:
    before, after, left, right = (gap.encode() for gap in gaps)
    inner = b",".join(left + value + right for value in values)
    assert _json.split_array(before + b"[" + inner + b"]" + after) == values


@unhurried
@given(st.dictionaries(st.text(), written(), max_size=6), WHITESPACE)
def test_an_object_is_cut_into_the_very_bytes_it_was_made_of(members: dict[str, bytes], gap: str) -> None:
    space = gap.encode()
    pieces = [space + json.dumps(k).encode() + space + b":" + space + v + space for k, v in members.items()]
    assert _json.split_object(b"{" + b",".join(pieces) + b"}") == members


@unhurried
@given(written(), st.data())
def test_a_cut_text_is_an_error_and_never_a_shorter_value(value: bytes, data: st.DataObject) -> None:
    whole = b'{"payload":' + value + b"}"
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ValueError):
        _json.split_object(cut)


@unhurried
@given(st.binary(max_size=40))
def test_any_bytes_at_all_give_a_value_or_a_value_error(noise: bytes) -> None:
    for split in (_json.split_array, _json.split_object):
        with contextlib.suppress(ValueError):
            split(noise)


def test_depth_costs_nothing() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    assert _json.split_object(b'{"payload": ' + deep + b"}") == {"payload": deep}


@pytest.mark.parametrize(
    "text", [b"", b"[]x", b"{} {}", b"[1 2]", b"[,]", b'{"a"}', b'{"a":}', b"{1:2}", b"[1,"]
)
def test_what_is_no_array_or_object_is_refused(text: bytes) -> None:
    for split in (_json.split_array, _json.split_object):
        with pytest.raises(ValueError):
            split(text)


@pytest.mark.parametrize(
    "text", [b"NaN", b"[Infinity]", b"-Infinity", b"1 2", b"", b"{", b"\xff", b"\xef\xbb\xbf1"]
)
def test_raw_results_that_are_not_json_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        _json.check(text)


def test_a_number_of_any_length_is_json() -> None:
    _json.check(b"9" * 100_000)
