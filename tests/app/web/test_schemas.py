"""What goes out in responses: times in one form, numbers and stored JSON as they came."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import openapi
from app.web.response import json_response
from app.web.schemas import moment, moment_or_null, raw, whole

FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
BOUNDS = [datetime(year, 1, 1) for year in (1900, 9000)]  # noqa: DTZ001 - st.datetimes wants naive ones


@given(st.datetimes(*BOUNDS, timezones=ZONES))
def test_every_time_has_one_form_and_is_the_same_moment(time: datetime) -> None:
    text = moment(time)
    assert FORM.fullmatch(text)
    assert datetime.fromisoformat(text) == time


def test_a_whole_second_keeps_its_fraction() -> None:
    assert moment(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31T12:00:00.000000Z"
    assert moment_or_null(None) is None


@pytest.mark.parametrize(("value", "text"), [(60.0, "60"), (0.5, "0.5"), (1e7, "10000000")])
def test_a_whole_number_comes_back_as_one(value: float, text: str) -> None:
    assert json_response(whole(value)).body.decode() == text


@pytest.mark.parametrize("text", ["1.10", '{"a":1, "a":2}', r'"\ud800"', "[ ]", "9007199254740993", None])
def test_stored_json_goes_out_byte_for_byte(text: str | None) -> None:
    assert json_response({"payload": raw(text)}).body.decode() == f'{{"payload":{text or "null"}}}'


def test_every_time_in_the_openapi_document_is_a_date_time() -> None:
    """Look at members that are times by their names, which no schema may type as a mere text."""
    found = [
        f"{name}.{member}"
        for name, schema in openapi.build()["components"]["schemas"].items()
        for member, kind in schema.get("properties", {}).items()
        if member.endswith("_at") or member == "timestamp"
        if "date-time" not in str(kind)
    ]
    assert found == []
