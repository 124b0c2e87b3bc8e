"""RVQ behind a real PgBouncer: transaction mode as documented, and what is forgotten is said."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg2
import pytest

from app.db import Pool
from app.db.errors import DatabaseUnavailable, DatabaseUnfit
from app.db.migrations import LOCK, migrate
from app.db.session import TIMEOUTS
from dispatcher.store import SLOW_STATEMENT_MS, Store
from tests.app.rig import make_caller
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.steps import stepping
from tests.e2e.test_brought_along import live, webhooks
from tests.e2e.test_unfit_databases import alter, rvq
from tests.support.concurrency import background, wait_until
from tests.support.pgbouncer import needs_pgbouncer, pgbouncer

pytestmark = needs_pgbouncer
SHORTEST = 0.2  # seconds
SHORT = dict.fromkeys(TIMEOUTS, int(SHORTEST * 1000))
WAITS_LONGER = """
SELECT count(*) FROM pg_stat_activity AS a
 WHERE a.datname = current_database() AND a.wait_event_type = 'Lock'
   AND clock_timestamp() - a.query_start > 5 * interval '200 ms'"""


def set_timeouts(url: str, milliseconds: dict[str, int]) -> None:
    for name, value in milliseconds.items():
        alter(url, f"SET {name} = {value}")


@pytest.fixture
def behind(empty_database: str) -> Iterator[str]:
    """A database with the timeouts that the documentation tells to set, behind PgBouncer."""
    set_timeouts(empty_database, dict(TIMEOUTS))
    with pgbouncer(empty_database) as url:
        yield url


def test_a_task_lives_from_its_post_to_a_verified_webhook(behind: str) -> None:
    migrate(behind)
    pool = Pool(behind, 8, "rvq-api-test")
    pool.open()
    with contextlib.closing(pool), stepping(behind) as steps, Receiver() as receiver:
        live(make_caller(behind, pool, **webhooks(receiver)), steps, receiver)


def test_without_timeouts_on_the_role_nothing_starts_and_the_statements_are_named(
    empty_database: str,
) -> None:
    with pgbouncer(empty_database) as url:
        with pytest.raises(DatabaseUnfit, match="SET statement_timeout = '10000ms'"):
            migrate(url)
        migrate(empty_database)
        for command in ("migrate", "doctor"):
            status, words = rvq([command], url)
            assert (status, "Traceback" in words) == (1, False)
            assert "statement_timeout" in words


def test_a_migration_takes_the_time_it_needs_whatever_the_role_allows(empty_database: str) -> None:
    set_timeouts(empty_database, SHORT)
    holder = psycopg2.connect(empty_database, options="-c statement_timeout=0")
    with pgbouncer(empty_database) as url, contextlib.closing(holder), holder.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        with background(migrate, url) as migrating:
            try:
                wait_until(lambda: _waits(empty_database), "it waits for far longer than the role allows")
            finally:
                holder.rollback()
            assert migrating.result(60).migrations


def test_a_slow_step_of_maintenance_takes_the_time_it_needs_whatever_the_role_allows(
    empty_database: str,
) -> None:
    migrate(empty_database)
    set_timeouts(empty_database, SHORT)
    with pgbouncer(empty_database) as url:
        pool = Pool(url, 1, "rvq-dispatcher", statement_timeout_ms=SLOW_STATEMENT_MS)
        pool.open()
        with contextlib.closing(pool):
            slept = Store(pool).run_step(f"SELECT pg_sleep({3 * SHORTEST})", None, is_slow=True)
    assert slept == [("",)]


def test_a_pooler_with_fewer_connections_than_ours_is_named_instead_of_waited_for(
    behind: str, empty_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.db.watcher.WATCH_SECONDS", 0.1)
    with pgbouncer(empty_database, mode="session", size=2) as url:
        pool = Pool(url, 4, "rvq-api-test", statement_timeout_ms=500)
        with pytest.raises(DatabaseUnavailable):
            pool.open(["SELECT 1"])
    assert "connection 3 of 4 got no answer" in caplog.text


def _waits(url: str) -> bool:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(WAITS_LONGER)
        row = cursor.fetchone()
    return bool(row and row[0])
