"""Maintenance that is far behind goes on in slices, halves those that take too long, and tells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from app.db import Pool, Row, StatementTimeout
from app.db.migrations import migrate
from dispatcher.loops import Loop
from dispatcher.maintenance import Step, StepRunner
from dispatcher.metrics import Metrics
from dispatcher.store import Store
from rvq.doctor import upkeep
from rvq.doctor.store import open_store
from tests.app.rig import ADMIN, make_caller
from tests.dispatcher.rig import Tasks
from tests.dispatcher.steps import Steps, stepping
from tests.sql.calls import Calls
from tests.support.database import Database

DELTAS = """
INSERT INTO rvq.counter_deltas (queue, queued, scheduled)
SELECT 'q' || mod(n, 3), CASE mod(n, 2) WHEN 0 THEN 1 ELSE -1 END, 0 FROM generate_series(1, %s) AS n"""


def left(database: Database, table: str) -> int:
    return int(database.value(f"SELECT count(*) FROM rvq.{table}"))


def test_counters_are_folded_in_slices_and_stats_are_exact_at_each(database: Database) -> None:
    Tasks(database.url).create(3)
    exact = Calls(database.main).stats()["sub_tasks"]
    database.rows(DELTAS, (600,))
    with stepping(database.url) as steps:
        fold = steps.runner("fold_counters", batch=250)
        for deltas in (351, 101):
            assert fold.step() == 0.0
            assert left(database, "counter_deltas") == deltas
            assert Calls(database.main).stats()["sub_tasks"] == exact
        assert fold.step() > 0
    assert left(database, "counter_deltas") == 0
    assert Calls(database.main).stats()["sub_tasks"] == exact


def test_overdue_tasks_end_in_slices_that_are_bounded_in_sub_tasks(database: Database) -> None:
    for _ in range(4):
        Tasks(database.url).create(600, deadline_seconds=5)
    database.move_clock(10)
    with stepping(database.url) as steps:
        overdue = steps.runner("end_overdue_tasks", batch=10)
        assert overdue.step() == 0.0
        assert left(database, "open_sub_tasks") == 1200
        assert overdue.step() > 0
    assert left(database, "open_tasks") == 0


def test_expired_leases_take_siblings_along_in_slices(database: Database) -> None:
    calls = Calls(database.main)
    for queue in "abcd":
        calls.create(30, policy="fail_fast", max_attempts=1, queue=queue)
        calls.claim_one(queues=[queue], lease=1)
    database.move_clock(10)
    with stepping(database.url) as steps:
        expire = steps.runner("expire_leases", batch=2)
        tasks = []
        while expire.step() == 0.0:
            tasks.append(left(database, "open_tasks"))
    assert tasks == [2, 0]
    assert left(database, "open_sub_tasks") == 0


def test_leases_of_one_large_task_fit_into_one_slice(database: Database) -> None:
    Tasks(database.url).create(100, policy="fail_fast")
    database.rows("SELECT * FROM rvq.claim_sub_tasks('{w}', '{3}', 1, ARRAY['default'])")
    database.move_clock(10)
    assert database.rows("SELECT * FROM rvq.expire_leases(4)") == [(3, False)]
    assert left(database, "open_tasks") == 0


def test_what_is_below_the_floors_is_rescued_in_slices(database: Database) -> None:
    Tasks(database.url).create(5)
    database.rows("INSERT INTO rvq.queues VALUES ('default', false, clock_timestamp() + interval '1 second')")
    with stepping(database.url) as steps:
        rescue = steps.runner("rescue_below_floors", batch=2)
        assert [rescue.step() == 0.0 for _ in range(3)] == [True, True, False]
    assert database.column("SELECT DISTINCT requeued FROM rvq.open_sub_tasks") == [True]


def test_floors_are_raised_a_few_queues_at_a_time_and_all_in_turn(database: Database) -> None:
    calls = Calls(database.main)
    for queue in ("0", "a", "b", "c", "d"):
        calls.create(queue=queue)
    calls.fold()
    floors = "SELECT queue FROM rvq.queues WHERE claim_floor > '-infinity' ORDER BY queue"
    with stepping(database.url) as steps:
        walk = steps.runner("raise_claim_floors", batch=2)
        for reached in (["0", "a"], ["0", "a", "b", "c"], ["0", "a", "b", "c", "d"]):
            assert walk.step() > 0
            assert database.column(floors) == reached
        assert walk._after == ""


class TooMuch(Store):
    """A store that can do so many rows in time, and remembers how many it was asked for."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[int] = []

    def run_step(self, sql: str, lock_key: int | None, *, is_slow: bool) -> list[Row] | None:
        self.asked.append(int(sql))
        if self.asked[-1] > self.most:
            raise StatementTimeout("canceling statement due to statement timeout (57014)")
        return [(self.asked[-1],)]


def test_a_slice_that_takes_too_long_is_halved_until_it_fits_and_grows_again() -> None:
    store, metrics = TooMuch(30), Metrics()
    loop = Loop("some", StepRunner(Step("some", 99, 10.0, 100, "{batch}"), store, metrics, 30).step)
    pauses = [loop.run_once() for _ in range(3)]
    store.most = 1000
    pauses += [loop.run_once() for _ in range(3)]
    assert store.asked == [100, 50, 25, 50, 100, 100]
    assert pauses[2:] == [0.0] * 4
    assert metrics.registry.get_sample_value("rvq_maintenance_failures_total", {"step": "some"}) == 2


def test_what_takes_minutes_and_has_no_half_waits_for_its_next_turn() -> None:
    metrics = Metrics()
    runner = StepRunner(Step("some", None, 600.0, 0, "1", is_slow=True), TooMuch(0), metrics, 30)
    assert runner.step() >= 540
    assert metrics.registry.get_sample_value("rvq_maintenance_failures_total", {"step": "some"}) == 1


@pytest.fixture
def slow_deletes(database: Database) -> Iterator[None]:
    """Deleting a delta takes 10 ms."""
    database.rows(
        "CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.01); RETURN old; END $$"
    )
    database.rows(
        "CREATE TRIGGER dawdle BEFORE DELETE ON rvq.counter_deltas"
        " FOR EACH ROW EXECUTE FUNCTION public.dawdle()"
    )
    yield
    database.rows("DROP FUNCTION public.dawdle CASCADE")


def test_a_database_too_slow_for_a_slice_gets_smaller_ones(database: Database, slow_deletes: None) -> None:
    database.rows(DELTAS, (126,))
    pool = Pool(database.url, 1, "rvq-test-dispatcher", statement_timeout_ms=500)
    with contextlib.closing(pool):
        steps = Steps(pool)
        loop = Loop("fold", steps.runner("fold_counters", batch=128).step)
        for _ in range(200):
            loop.run_once()
            if left(database, "counter_deltas") == 0:
                break
        assert left(database, "counter_deltas") == 0
        failures = steps.metrics.registry.get_sample_value(
            "rvq_maintenance_failures_total", {"step": "fold_counters"}
        )
        assert failures


def test_how_far_it_is_behind_is_told_by_metrics_doctor_and_readyz(database: Database) -> None:
    tasks = Tasks(database.url)
    for _ in range(3):
        tasks.create(deadline_seconds=5)
    tasks.create(not_before_seconds=5)
    database.move_clock(100)
    database.rows("SELECT rvq.check_admission()")  # as by a dispatcher a moment ago
    with stepping(database.url) as steps:
        steps.maintain("report")
        value = steps.metrics.registry.get_sample_value
        assert value("rvq_maintenance_due", {"step": "end_overdue_tasks"}) == 3
        assert value("rvq_maintenance_due", {"step": "promote_due"}) == 1
        assert (value("rvq_maintenance_behind_seconds", {"step": "end_overdue_tasks"}) or 0) > 90
        assert value("rvq_maintenance_due", {"step": "expire_leases"}) == 0
        ready = make_caller(database.url, steps.pool).call("GET", "/readyz")
        assert ready.expect(200) == {"status": "ready", "behind": ["end_overdue_tasks", "promote_due"]}
        with open_store(database.url) as store:
            texts = [one.text for one in upkeep.of_steps(store, 30) if one.level == "wrong"]
        assert [text.partition(" is behind")[0] for text in texts] == ["promote_due", "end_overdue_tasks"]
        for name in ("end_overdue_tasks", "promote_due"):
            steps.maintain(name)
        assert make_caller(database.url, steps.pool).call("GET", "/readyz").expect(200) == {"status": "ready"}


LATE = "SELECT step FROM rvq.list_due_steps() WHERE is_behind"


def test_many_deltas_are_behind(database: Database) -> None:
    database.rows(DELTAS, (99_000,))
    assert database.column(LATE) == []
    database.rows(DELTAS, (2_004,))
    assert database.column(LATE) == ["fold_counters"]
    database.rows("TRUNCATE rvq.counter_deltas")


def test_a_missing_tomorrow_is_behind(empty_database: str) -> None:
    """In a database of its own: other tests have made days ahead in the shared one."""
    migrate(empty_database)
    with contextlib.closing(Database(empty_database)) as database:
        database.rows("SELECT rvq.create_partitions(7)")
        database.move_clock(6 * 86_400)
        assert database.column(LATE) == []
        database.move_clock(7 * 86_400)
        assert database.column(LATE) == ["create_partitions"]


def test_waits_are_walked_in_slices_and_at_once_where_the_clock_was_set_back(database: Database) -> None:
    calls = Calls(database.main)
    calls.create(6)
    calls.fail(*calls.claim(6), retry_after=60)
    with stepping(database.url) as steps:
        walk = steps.runner("follow_clock", batch=2)
        assert walk.step() > 0
    database.move_clock(-86_400)
    with stepping(database.url) as steps:
        walk = steps.runner("follow_clock", batch=2)
        for _ in range(3):
            assert walk.step() == 0.0
        assert walk.step() > 0
    later = "SELECT count(*) FROM rvq.open_sub_tasks WHERE due_at > rvq.clock() + interval '61 s'"
    assert database.value(later) == 0


def test_stats_that_take_too_long_say_why_and_the_database_counts_as_up(database: Database) -> None:
    locker = database.connect(autocommit=False)
    database.rows("LOCK TABLE rvq.counter_deltas IN ACCESS EXCLUSIVE MODE", on=locker)
    pool = Pool(database.url, 1, "rvq-api-test", lock_timeout_ms=100)
    with contextlib.closing(pool):
        api = make_caller(database.url, pool)
        assert "/readyz" in api.partner("GET", "/v1/stats").problem(503, "timeout").detail
        text = api.call("GET", "/metrics", token=ADMIN).body.decode()
        assert "rvq_database_up 1.0" in text
        assert "rvq_tasks" not in text
    locker.rollback()
