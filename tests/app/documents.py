"""JSON as senders write it: odd spacing, key order, duplicate keys, numbers and escapes."""

from __future__ import annotations

from hypothesis import strategies as st

BLANKS = st.text(" \t\n\r", max_size=2)
DIGITS = st.integers(0, 10**25).map(str)


@st.composite
def numbers(draw: st.DrawFn) -> str:
    fraction = draw(st.sampled_from(["", ".0", ".10", ".000", ".5"]))
    exponent = draw(st.sampled_from(["", "e2", "E+2", "e-07", "e999"]))
    return draw(st.sampled_from(["", "-"])) + draw(DIGITS) + fraction + exponent


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\ud83d\\u{0xDC00 + code % 0x400:04x}"


PLAIN = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters='"\\')
ESCAPES = st.sampled_from(
    ['\\"', "\\\\", "\\/", "\\b", "\\n", "\\u0000", "\\u001f", "\\ud800", "\\uDfFf", "\\uD83D\\ude00"]
)
STRINGS = st.lists(PLAIN | ESCAPES | PLAIN.map(_escaped), max_size=8).map(lambda parts: f'"{"".join(parts)}"')
SCALARS = st.sampled_from(["null", "true", "false", "1.10", "1e2", "9007199254740993", "-0", "0.0"])


@st.composite
def arrays(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    return "[" + draw(BLANKS) + ("," + draw(BLANKS)).join(draw(st.lists(items, max_size=4))) + "]"


@st.composite
def objects(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    """Draw an object, with keys from a few, so that they often come twice."""
    keys = st.sampled_from(['"a"', '"a"', '"b"', '"message"', '"\\u0061"', '""']) | STRINGS
    members = [
        f"{draw(keys)}{draw(BLANKS)}:{draw(BLANKS)}{item}" for item in draw(st.lists(items, max_size=4))
    ]
    return "{" + draw(BLANKS) + (draw(BLANKS) + ",").join(members) + "}"


DOCUMENTS = st.recursive(
    SCALARS | numbers() | STRINGS, lambda items: arrays(items) | objects(items), max_leaves=12
)
OBJECTS = objects(DOCUMENTS)
