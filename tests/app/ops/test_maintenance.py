"""What /readyz and /metrics say of the maintenance that dispatchers do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.db import Pool
from app.db.migrations import migrate
from tests.app.rig import ADMIN, Caller, make_caller
from tests.support.database import Database

READY = {"status": "ready"}


@contextlib.contextmanager
def calling(url: str) -> Iterator[Caller]:
    """The API, over connections that begin now, at the time there is now."""
    pool = Pool(url, 1, "rvq-api-test")
    with contextlib.closing(pool):
        yield make_caller(url, pool)


@pytest.fixture
def maintained(database: Database) -> Iterator[Database]:
    """As by a dispatcher a moment ago."""
    database.rows("SELECT rvq.check_admission()")
    yield database
    database.move_clock(0)
    database.rows("DELETE FROM rvq.admission")
    database.rows("INSERT INTO rvq.admission DEFAULT VALUES")


def readiness(url: str) -> Any:
    with calling(url) as api:
        return api.call("GET", "/readyz").expect(200)


def age(url: str) -> float:
    with calling(url) as api:
        text = api.call("GET", "/metrics", token=ADMIN).body.decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    return float(found["rvq_maintenance_age_seconds"].samples[0].value)


def test_no_maintenance_for_a_minute_is_told_and_stays_ready(maintained: Database) -> None:
    assert readiness(maintained.url) == READY
    assert 0 <= age(maintained.url) < 50
    maintained.move_clock(61)
    told = readiness(maintained.url)
    assert told["status"] == "ready"
    assert told["degraded"].startswith("no dispatcher has done its maintenance for ")
    assert 61 <= age(maintained.url) < 111
    with contextlib.closing(maintained.connect()) as moved:
        maintained.rows("SELECT rvq.check_admission()", on=moved)
    assert readiness(maintained.url) == READY


def test_where_none_has_ever_run_the_minute_begins_with_the_schema(empty_database: str) -> None:
    migrate(empty_database)
    database = Database(empty_database)
    database.rows("SELECT rvq.create_partitions(7)")
    assert readiness(empty_database) == READY
    database.move_clock(61)
    assert "degraded" in readiness(empty_database)
    database.close()


def test_a_clock_that_was_set_back_and_a_lost_row_are_no_errors(maintained: Database) -> None:
    maintained.rows("UPDATE rvq.admission SET checked_at = rvq.clock() + interval '1 hour'")
    assert (readiness(maintained.url), age(maintained.url)) == (READY, 0.0)
    maintained.rows("DELETE FROM rvq.admission")
    assert readiness(maintained.url)["status"] == "ready"
