"""Times in requests, wherever they stand: any zone, within bounds, stored and shown in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import openapi
from app.web.moments import parse_moment
from tests.app.rig import Caller, Reply

# With the two bounds, all of these are good.
IN_UTC = {
    "2031-01-01T00:00:00Z": "2031-01-01T00:00:00.000000Z",
    "2031-01-01T00:00:00+16:00": "2030-12-31T08:00:00.000000Z",
    "2031-01-01T00:00:00-23:59": "2031-01-01T23:59:00.000000Z",
    "2031-06-30t23:59:59.1234567z": "2031-06-30T23:59:59.123457Z",
    "2200-01-01T10:00:00+14:00": "2199-12-31T20:00:00.000000Z",
    "2199-12-31T23:59:59.999999Z": "2199-12-31T23:59:59.999999Z",
}
OUT_OF_BOUNDS = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00+00:01",
    "2199-12-31T23:59:59-00:01",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
]
FIRST = "1970-01-01T00:00:00Z"


def create(api: Caller, time: str) -> Reply:
    return api.partner("POST", "/v1/tasks", {"sub_tasks": [{"payload": 1}], "not_before": time})


def narrow(api: Caller, time: str) -> Reply:
    return api.admin("GET", f"deliveries?since={quote(time)}")


def redeliver(api: Caller, time: str) -> Reply:
    return api.admin("POST", "deliveries/redeliver", {"since": time})


# Where a request has a time: in which call, and how it is sent.
PLACES = {
    ("POST /v1/tasks", "not_before"): create,
    ("GET /v1/admin/deliveries", "since"): narrow,
    ("POST /v1/admin/deliveries/redeliver", "since"): redeliver,
}


def _properties(schema: Any, schemas: dict[str, Any]) -> list[str]:
    """Return the members that are times, at any depth."""
    if "$ref" in schema:
        return _properties(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    below = [name for one in schema.get("anyOf", []) for name in _properties(one, schemas)]
    for name, member in schema.get("properties", {}).items():
        found = "date-time" in str(member)
        below += [name] if found else _properties(member, schemas)
    return below + (_properties(schema["items"], schemas) if "items" in schema else [])


def test_every_time_in_a_request_is_tried_here() -> None:
    document = openapi.build()
    schemas, found = document["components"]["schemas"], set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            call = f"{method.upper()} {path}"
            parameters = operation.get("parameters", [])
            found |= {(call, one["name"]) for one in parameters if one["schema"].get("format") == "date-time"}
            if "requestBody" in operation:
                body = operation["requestBody"]["content"]["application/json"]["schema"]
                found |= {(call, name) for name in _properties(body, schemas)}
    assert found == set(PLACES)


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
@pytest.mark.parametrize("time", [*IN_UTC, FIRST])
def test_a_time_in_any_zone_is_taken(api: Caller, place: tuple[str, str], time: str) -> None:
    assert PLACES[place](api, time).status in (200, 201)


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
@pytest.mark.parametrize("time", OUT_OF_BOUNDS)
def test_a_time_out_of_bounds_is_422_and_named(api: Caller, place: tuple[str, str], time: str) -> None:
    assert PLACES[place](api, time).pointers() == [f"/{place[1]}"]


@pytest.mark.parametrize(("given", "shown"), IN_UTC.items())
def test_a_not_before_is_shown_in_utc(api: Caller, given: str, shown: str) -> None:
    (sub_task,) = api.sub_tasks(create(api, given).expect(201)["id"])
    assert sub_task["queued_at"] == shown


@given(time=st.datetimes(timezones=st.timezones() | st.just(UTC)))
def test_any_time_is_the_same_moment_in_utc_or_refused(time: datetime) -> None:
    try:
        parsed = parse_moment(time.isoformat())
    except ValueError:
        assert not 1970 < time.year < 2199
    else:
        # Not `time` itself: Python calls a time that its zone skips unequal to every other.
        assert parsed == datetime.fromisoformat(time.isoformat())
        assert (parsed.tzinfo, parsed.utcoffset()) == (UTC, UTC.utcoffset(None))
