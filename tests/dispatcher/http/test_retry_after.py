"""Retry-After of every shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.http.retry_after import LONGEST, parse_retry_after

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 120\t", 120),
        ("000120", 120),
        ("86400", 86_400),
        ("86401", LONGEST),
        ("9" * 5000, LONGEST),
        ("0" * 5000 + "7", 7),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
        ("Sun Nov  6 08:50:37 1994", 60),
        ("Sun, 06 Nov 1994 08:50:37 +0000", 60),
        ("Sun, 06 Nov 1994 09:50:37 +0100", 60),
        ("Sun, 06 Nov 1994 08:50:37 -0000", 60),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
    ],
)
def test_seconds_and_dates_are_understood_and_bounded(value: str, seconds: float) -> None:
    assert parse_retry_after(value, None, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        None,
        *(
            "",
            " ",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "0x10",
            "1 2",
            "1,2",
            "1;2",
            "120s",
            "PT2M",
            "soon",
            "NaN",
            "inf",
            "null",
        ),
        *(
            "\u0661\u0662",
            "\uff11",
            "1\n",
            "1\0",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
        ),
        *("Sun, 06 Nov 1994 25:61:61 GMT", "Sun, 06 Nov 99999 08:49:37 GMT"),
        *("06/11/1994 08:49:37 GMT+2", "1994-11-06T08:49:37Z", "x" * 30, "," * 30, "Sun," * 5000),
    ],
)
def test_what_makes_no_sense_is_as_good_as_absent(value: str | None) -> None:
    assert parse_retry_after(value, None, NOW) is None


def test_a_date_is_measured_from_the_receivers_own_clock() -> None:
    date, later = "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:51:37 GMT"
    assert parse_retry_after(later, date, NOW + 5_000) == 120
    assert parse_retry_after(later, "nonsense", NOW) == 120


@given(
    st.one_of(st.text(), st.text("0123456789 ,:GMTSunNov+-", max_size=40)), st.none() | st.text(max_size=40)
)
def test_whatever_is_sent_the_result_is_nothing_or_within_bounds(value: str, date: str | None) -> None:
    seconds = parse_retry_after(value, date, NOW)
    assert seconds is None or 0 <= seconds <= LONGEST
